"""The survey selector that needs no model: it adds up weighted linguistic cues in title and abstract.

The word "survey" has several meanings. A literature survey says so in its title ("..., a survey", "a survey of ...",
"taxonomy and survey") and mentions approaches, literature, taxonomies and open problems. A questionnaire study mentions
respondents and attitudes, a field survey sites, vehicles and samples, a sky survey redshifts. Some papers are about
surveys as texts or as an instrument. Each cue counts once, however often it matches, and a candidate is accepted when
the sum is positive. Raise the version of the stage `surveys` when you change a cue.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from tasks.corpus.survey_selector import Candidate, ModelConnection, Verdict, survey_selector


class Cue(NamedTuple):
    """A pattern in lower-cased text and its weight; a positive weight is evidence for a literature survey."""

    name: str
    weight: int
    pattern: re.Pattern[str]


def _cue(name: str, weight: int, *patterns: str) -> Cue:
    return Cue(name, weight, re.compile("|".join(patterns)))


def _any(*words: str) -> str:
    return f"(?:{'|'.join(' '.join(words).split())})"


PEOPLE = _any(
    "users developers programmers practitioners professionals experts non-experts engineers designers managers",
    "researchers scientists authors readers scholars academics librarians teachers educators instructors faculty",
    "students undergraduates pupils children adolescents teenagers adults people persons individuals citizens",
    "residents consumers customers clients employees workers staff physicians doctors clinicians nurses surgeons",
    "dentists pharmacists radiologists patients caregivers parents mothers women men farmers households families",
    r"companies organi[sz]ations enterprises firms schools universities hospitals libraries communit(?:y|ies) members",
    "owners players gamers drivers participants stakeholders volunteers populations? respondents",
)
KIND = _any(
    "comprehensive systematic extensive exhaustive thorough detailed brief short concise broad up-to-date timely",
    "structured in-depth critical literature holistic unified unifying complete recent technical comparative first",
    r"state-of-the-art high-level general historical selective focused tutorial annotated organi[sz]ed empirical",
)
OVERVIEW = _any(r"survey review overview taxonomy categori[sz]ation classification synthesis roadmap summary")
WORKS = _any(
    r"approach(?:es)? methods? methodologies techniques? works? research literature studies advances advancements",
    r"developments? solutions? algorithms? schemes? protocols? models? systems frameworks? results progress proposals",
    r"papers publications efforts tools architectures mechanisms metrics datasets resources",
)
POLL = _any(
    "on-?line web web-based internet e-?mail mail postal telephone phone mobile paper-based face-to-face user customer",
    "consumer reader student teacher employee community member opinion attitude satisfaction population household",
    r"housing health social socio-?economic national nation-?wide international global annual longitudinal panel",
    r"cross-sectional questionnaire self-report(?:ed)? self-administered anonymous crowdsourced representative",
    "statistical market preference follow-up pilot exploratory large-scale population-based public recruitment travel",
    "usability experience preliminary qualitative quantitative",
)
FIELD = _any(
    "aerial airborne seismic magnetic gravity geophysical geological geodetic bathymetric topographic hydrographic",
    "underwater marine seabed seafloor benthic reef oceanographic ecological biodiversity vegetation soil land",
    "cadastral wildlife bird fish botanical archaeological photogrammetric radar sonar site transect pipeline pipe",
    "ship uav auv drone robotic autonomous acoustic groundwater faunal floristic entomological serological molecular",
)
SKY = _any(
    r"sky redshift galaxy galaxies photometric spectroscopic stellar radio x-ray gamma-ray infrared optical",
    r"submillimet(?:er|re) astronomical lensing transient supernova exoplanet microlensing 21-?cm wide-field legacy",
)
HELD = _any("conducted administered sent distributed deployed fielded ran run launched issued disseminated")
DETERMINER = r"(?:an?|our|the|two|three|several)"
HEAD = r"(?:^|[:.?!,(—–]|\s-|\s--|\band|\bwith)\s*(?:an?\s+|the\s+|yet another\s+)?(?:[\w-]+,?\s+){0,3}"

NAMED = (
    _cue(
        "names itself a survey",
        4,
        r"(?:[:.?!,(—–]|\s-|\s--)\s*(?:an?\s+|the\s+)?(?:[\w-]+\s+){0,3}(?:meta-)?survey(?:\W*$|:)",
        r"^(?:an? )?survey:",
    ),
    _cue("a survey of a subject", 3, HEAD + r"survey\s+(?:of|on|about|in|towards?|from)\b"),
    _cue(
        "survey beside another kind of study",
        3,
        r"\bsurvey(?:,|\s+and|\s*&|\s*/)\s+\w",
        r"\b(?:and|&)\s+(?:an?\s+)?(?:[\w-]+\s+){0,2}survey\b",
    ),
    _cue("subject, then survey", 2, r"^[\w -]+(?<! and)(?<! with)(?<! from)(?<! an)(?<! a) survey$"),
)
"""Forms in which a title calls its paper a survey."""

TITLE = (
    *NAMED,
    _cue("kind of overview", 2, rf"\b{KIND}\s+(?:[\w-]+\s+)?survey\b|\bstate[- ]of[- ]the[- ]art\b|\bmeta-survey\b"),
    _cue(
        "taxonomy or review",
        2,
        r"\b(?:taxonom|tutorial|literature|review\b|overview|categori[sz]ation|classification\b)",
    ),
    _cue(
        "outlook",
        1,
        r"\b(?:challenges|open (?:research )?(?:issues|problems|questions)|(?:future|research) (?:\w+ )?directions)\b",
        r"\b(?:perspectives?|prospects|trends|advances|progress|frontiers|opportunities|past, present)\b",
    ),
    _cue("works as subject", 1, rf"\b{WORKS}\b"),
    _cue("survey propagation", -9, r"\bsurveys? propagation\b"),
    _cue(
        "survey as an instrument",
        -6,
        r"\bsurveys?[- ](?:data|items?|panels?|variables?|errors?|design|tools?|databases?|training|analysis)\b",
        r"\bsurveys?[- ](?:approach|weights?|areas?|path|quality|time-series|fatigue|completion|nonresponse)\b",
        r"\bsurveys?[- ](?:stud|question|respon|instrument|sampl|method|recruit|particip|interview|experiment|simulat)",
        r"\bsurveys?[- ](?:platform|aggregat|estimat|imag|plan|vehicle|mission)",
    ),
    _cue(
        "surveys as texts",
        -6,
        r"\b(?:literature|automatic(?:ally)?|generat\w+|writ\w+)\b.*\bsurveys\b",
        r"\bsurvey (?:papers?|articles?|generation|extraction|writing)\b|\bgenerat\w+ (?:an? )?survey\b",
    ),
    _cue(
        "survey of people",
        -6,
        r"\bsurvey(?:ing|s)?\s+(?:of|among|amongst|with|on|from|by)\s+(?:the\s+|\d[\d,.]*\s+)?(?:[\w'’-]+\s+){0,3}"
        rf"{PEOPLE}\b",
    ),
    _cue("poll", -5, rf"\b{POLL}[- ](?:[\w-]+\s+)?(?:micro)?surveys?\b|\bmicrosurveys?\b"),
    _cue(
        "findings of a survey",
        -9,
        r"\b(?:results?|findings?|evidence|lessons|insights|answers|data)\s+(?:learned\s+)?(?:of|from|in|through)\s+"
        r"(?:[\w'’-]+\s+){0,5}surveys?\b|\bfrom an? (?:[\w-]+ )?survey\b",
    ),
    _cue(
        "attitudes",
        -3,
        r"(?<!-)\b(?:attitudes?|perceptions?|opinions|expectations?|motivations?|willingness|beliefs?|satisfaction)\b",
        r"(?<!-)\b(?:prevalence|readiness|intentions?|awareness|acceptance|knowledge,? (?:and|of)|burnout)\b",
    ),
    _cue(
        "conduct",
        -1,
        r"\b(?:usage|use|adoption|experiences|concerns|needs|behaviou?rs?|barriers|demographics?|status of)\b",
    ),
    _cue("challenge report", -6, r"\bchallenge survey\b"),
    _cue("field survey", -6, rf"\b{FIELD}[- ](?:[\w-]+\s+)?survey(?:s|ing)?\b"),
    _cue("sky survey", -6, rf"\b{SKY}\s+(?:[\w-]+\s+)?surveys?\b"),
    _cue("surveys in the plural", -4, r"\bsurveys\b"),
)

ABSTRACT = (
    _cue(
        "announces an overview",
        3,
        r"\bthis\s+(?:[\w-]+\s+){0,2}(?:survey|review|overview|tutorial|monograph)\b(?! (?:data|was|respon))",
        r"\b(?:paper|article|work|chapter|study|report|note|thesis|authors?|survey|it)\s+(?:\w+ly\s+)?"
        r"(?:surveys?|reviews?|overviews|summari[sz]es?|categori[sz]es|classifies|synthesi[sz]es)\b(?! data)",
        rf"\b(?:presents?|provid(?:es?|ing)|gives?|offers?|conducts?|performs?|contribute|is|aims? to)\s+(?:\w+\s+)?"
        rf"(?:an?|the|our)\s+(?:[\w-]+,?\s+(?:and\s+)?){{0,4}}{OVERVIEW}\s+(?:of|on|about|for|and|in|to|covering|that)\b",
        r"\bwe\s+(?:\w+\s+){0,3}?(?:survey|review|summari[sz]ed?|categori[sz]ed?|classif(?:y|ied)|synthesi[sz]e)\b",
        r"\bwe (?:\w+ )?reviewed\b",
        r"\b(?:are|is) (?:\w+ )?(?:surveyed|reviewed|summari[sz]ed|categori[sz]ed|classified)\b",
        rf"\ban? (?:[\w-]+ ){{0,3}}(?:survey|review|overview) of (?:the )?(?:[\w-]+ ){{0,2}}{WORKS}\b",
        r"\bto (?:review|summari[sz]e)\b",
        r"\bto (?:survey|compare) (?:and \w+ )?(?:these|existing|recent|current|previous|various)\b",
    ),
    _cue("kind of overview", 2, rf"\b{KIND}\s+(?:and\s+[\w-]+\s+)?(?:literature\s+)?{OVERVIEW}\b"),
    _cue(
        "publications counted",
        2,
        r"\b\d+ (?:[\w-]+ ){0,2}(?:studies|papers|articles|publications|works)\b",
        r"\bmapping study\b|\bdigital libraries\b",
    ),
    _cue("taxonomy", 1, r"\btaxonom(?:y|ies)\b|\bcategori[sz](?:e|ation|ing|ed)\b|\bclassif(?:y|ication of)\b"),
    _cue(
        "works of others",
        1,
        r"\b(?:existing|recent|current|prior|previous|various|different|several|major|main|representative|proposed|relevant|"
        rf"available|numerous|state[- ]of[- ]the[- ]art)\s+(?:[\w-]+\s+){{0,3}}{WORKS}\b",
    ),
    _cue("literature", 1, r"\bliterature\b|\bbody of (?:work|research)\b"),
    _cue(
        "outlook",
        1,
        r"\b(?:open|future|remaining|research|key|unsolved)\s+(?:[\w-]+\s+)?"
        r"(?:problems|challenges|issues|questions|directions|trends|opportunities)\b",
    ),
    _cue(
        "history of a field",
        1,
        r"\b(?:researchers|research (?:area|field|community|activity|domain|problem)|attracted)\b",
        r"\b(?:history of|introduction (?:in)?to)\b",
        r"\b(?:decades?|active (?:area|field)|emerging (?:area|field)|growing (?:interest|body))\b",
    ),
    _cue(
        "respondents",
        -4,
        r"\brespondents?\b|\bresponse rates?\b|\blikert\b|\bsurvey (?:participants|takers|respon\w+)\b",
    ),
    _cue("questionnaire", -3, r"\bquestionnaires?\b"),
    _cue(
        "a survey was held",
        -4,
        r"\b(?:results?|findings|data|responses|answers)\s+(?:of|from|to|in)\s+(?:an?|the|this|two)\s+(?:[\w-]+\s+){0,4}survey\b",
        rf"\b(?:{HELD}|using|through|via|based on|by means of|with|report(?:s|ed)? on)\s+{DETERMINER}\s+"
        rf"(?:[\w-]+,?\s+){{0,3}}(?:{POLL}|\d+-\w+)\s+(?:[\w-]+\s+)?surveys?\b",
        rf"\bwe {HELD} {DETERMINER} (?:[\w-]+,? ){{0,3}}survey\b",
        rf"\bsurvey\s+(?:was|were)\s+(?:\w+ly\s+)?(?:{HELD}|held|carried out)\b(?! to (?:provide|give|review))",
        rf"\bsurvey(?:ed)?\s+(?:of\s+|with\s+|among\s+)?(?:\w+ than |about |over |almost |nearly |around )?(?:n ?= ?)?"
        rf"\d[\d,]*\s+(?:[\w-]+\s+){{0,4}}{PEOPLE}\b",
        rf"\bsurvey(?:ed)?\s+(?:of|with|among|amongst)\s+(?:[\w-]+\s+){{0,2}}{PEOPLE}\b",
    ),
    _cue(
        "people counted",
        -2,
        rf"\b\d[\d,]*\s+(?:[\w-]+\s+){{0,3}}{PEOPLE}\b|\bn ?= ?\d",
        r"\breceived (?:\w+ )?\d+ (?:\w+ )?(?:responses|replies|answers)\b",
    ),
    _cue(
        "poll",
        -2,
        rf"\b{POLL}\s+surveys?\b|\binterview(?:s|ed)?\b|\bself-report",
        r"\bsurvey (?:data|questions?|results|instrument|panel|sampl\w+|items?|methodology)\b",
    ),
    _cue(
        "attitudes",
        -1,
        r"\b(?:attitudes?|perceptions?|willingness|opinions of|(?<!-)awareness|perceived|demographics?)\b",
    ),
    _cue(
        "statistics of a study",
        -2,
        r"\bcross-sectional\b|\bodds ratios?\b|\b95 ?% (?:ci|confidence)\b|\bp ?[<=] ?0?\.\d|\bprevalence\b",
        r"\bstatistically significant\b|\bmean age\b|\bincidence\b",
    ),
    _cue(
        "counts and samples",
        -3,
        r"\b\d+(?:\.\d+)? ?(?:%|per ?cent)[^.]*\b(?:of (?:the|all|them|those)|were|had|reported|said)\b",
        r"\b(?:samples|specimens|isolates|animals|sera|sites)\s+(?:were|was)\s+(?:\w+ly\s+)?"
        r"(?:collected|examined|tested|analy[sz]ed|taken|obtained|found|positive|sampled|screened)\b",
        r"\b(?:specimens|infected|seropositive|inhabitants|individuals/|mg/(?:l|kg)|µg|ranged (?:from|between))\b",
    ),
    _cue(
        "field survey",
        -3,
        rf"\b{FIELD}\s+(?:[\w-]+\s+)?survey(?:s|ing)?\b|\bsurvey (?:area|site|mission|vehicle|line|vessel)s?\b",
    ),
    _cue(
        "sky survey",
        -4,
        rf"\b{SKY}\s+surveys?\b",
        r"\b(?:redshifts?|galaxies|quasars?|telescopes?|arcsec(?:onds?)?|arcmin(?:utes?)?|k?pc|mpc|photometry|deg2)\b",
    ),
)

UNNAMED = -2
"""Weight when the title matches no pattern of `NAMED`: the word may mean anything there."""

ALONE = -2
"""Weight when the abstract has no sign of the work of others."""


@survey_selector("rules")
class RuleSelector:
    """Adds up the weights of the cues found; accepts when the sum is positive."""

    name = "rules"
    prompt_id = None

    def select(self, candidates: Sequence[Candidate], connection: ModelConnection | None = None) -> list[Verdict]:
        """Returns one verdict per candidate; its reason names the strongest cues of the winning side and the sum."""
        return [_judge(candidate) for candidate in candidates]


def _judge(candidate: Candidate) -> Verdict:
    title, abstract = candidate.title.lower(), (candidate.abstract or "").lower()
    found = [(f"title: {cue.name}", cue.weight) for cue in TITLE if cue.pattern.search(title)]
    if not any(cue.pattern.search(title) for cue in NAMED):
        found.append(("title: does not call the paper a survey", UNNAMED))
    signs = [(f"abstract: {cue.name}", cue.weight) for cue in ABSTRACT if cue.pattern.search(abstract)]
    if abstract and not any(weight > 0 for _, weight in signs):
        found.append(("abstract: nothing on the work of others", ALONE))
    found += signs
    total = sum(weight for _, weight in found)
    winners = sorted((sign for sign in found if (sign[1] > 0) == (total > 0)), key=lambda sign: -abs(sign[1]))
    named = "; ".join(name for name, _ in winners[:3]) or "no sign of a literature survey"
    return Verdict(total > 0, f"{named} ({total:+d})")
