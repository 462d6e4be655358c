"""Tells English texts from others by their script and their function words, without a model."""

import re
from collections import Counter

ENGLISH = (
    "about all also an and are as at be been between both by can each for from has have how if in into is it its many "
    "more most not of on or our such than that the their these they this to used using we were what when where which "
    "while with"
)
"""Frequent words of English."""

OTHERS = {
    "Catalan": "amb aquest aquesta com dels els les per que una",
    "Czech": "byl jako jsou které který při tato ve že",
    "Danish": "af der det er et som til ved med og",
    "Dutch": "bij de dat deze een en het met naar uit van voor wordt zijn",
    "Finnish": "ja joka kun myös ovat sekä tai tämä tässä että",
    "French": "au aux avec ces cette dans de des du en est et la le les nous par pour que qui sont sur un une",
    "German": "auf aus bei das dem den der des die durch ein eine einer für im ist mit nicht sich sind über und von "
    "wird zu zum zur",
    "Hungarian": "az egy és hogy nem vagy ez mint",
    "Indonesian": "adalah dalam dan dari dengan di ini oleh pada untuk yang",
    "Italian": "alla che con da dei del della delle di gli il la nel nella per sono sui sulla un una",
    "Polish": "dla jest na nie od oraz przez się tym że które",
    "Portuguese": "ao com da das de dos em entre na não nas nos os para por que são se sobre um uma",
    "Romanian": "cu din este în la mai pe pentru prin sau un și",
    "Spanish": "como con de del el en entre es la las los para por que se sobre su un una",
    "Swedish": "att av den det en ett för med om på som till är",
    "Turkish": "bir bu çok da de gibi için ile olan olarak ve",
    "Vietnamese": "các cho của được là một những phương trong và về với",
}
"""Frequent words of other languages in Latin script, by the language's English name."""

OTHER_SCRIPT = "other script"

LEAST = 3
"""Words of another language that a text must hold; titles hold one or two by accident ("non-i.i.d.", "do as I do")."""

_ENGLISH = frozenset(ENGLISH.split())
_OTHERS = {name: frozenset(words.split()) for name, words in OTHERS.items()}
_WORD = re.compile(r"[^\W\d_]{2,}")


def foreign_language(title: str, abstract: str | None) -> str | None:
    """Returns the language of a paper that is not in English: its English name, or `other script`; None for English.

    A paper is in English unless fewer than half of its letters are Latin, or the function words of one other language
    outnumber those of English. A title of names and terms alone counts as English, because detectors that compare
    letters take such titles for Latin, Tagalog or Xhosa.

    Measured on 52,794 papers of computer science, nearly all in English: 58 are found foreign, all of them rightly; by
    their titles alone 39, of which one is English.
    """
    text = f"{title} {abstract or ''}".lower()
    if not text.isascii():
        letters = [letter for letter in text if letter.isalpha()]
        if sum(map(_is_latin, letters)) < len(letters) / 2:
            return OTHER_SCRIPT
    words = Counter(_WORD.findall(text))
    english = sum(words[word] for word in words.keys() & _ENGLISH)
    found = {name: sum(words[word] for word in words.keys() & known) for name, known in _OTHERS.items()}
    language = max(found, key=lambda name: found[name])
    return language if found[language] >= LEAST and found[language] > english else None


def _is_latin(letter: str) -> bool:
    return letter < "\u0250" or "\u1e00" <= letter < "\u1f00"
