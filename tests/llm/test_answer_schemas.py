"""The JSON schemas that models are sent: their docstrings are in them, and hence in the keys of requests."""

import hashlib
import json

from pydantic import BaseModel

from schemas.mindmap import MapAnswer
from tasks.corpus.figures.maps import ChosenFigures, FigureTree
from tasks.corpus.survey_selector import SurveyAnswer
from tasks.paperqa.actions import Arguments
from tasks.search.judges.paper_lantern import Answer
from tasks.search.judges.score_only import Level

PINNED = {
    "SurveyAnswer": "1bf5ffbdb086",
    "ChosenFigures": "ac5f0662980a",
    "FigureTree": "5602aa0d21ad",
    "MapAnswer": "1791e8243da9",
    "Answer": "c890cc431f66",
    "Level": "5da079ea96fb",
    "Classic": "467aedb0c0c7",
    "Expression": "381b8379d132",
    "FinalAnswer": "edf222e2bdba",
    "FromDatabase": "fba7c742ad99",
    "FromVectors": "766a509a058a",
    "PageView": "3571ae946f74",
}


def test_schemas_are_those_that_stored_replies_were_asked_with() -> None:
    sent: list[type[BaseModel]] = [SurveyAnswer, ChosenFigures, FigureTree, MapAnswer, Answer, Level]
    sent += sorted(Arguments.__subclasses__(), key=lambda arguments: arguments.__name__)

    schemas = {answer.__name__: json.dumps(answer.model_json_schema(), sort_keys=True) for answer in sent}
    digests = {name: hashlib.sha256(schema.encode()).hexdigest()[:12] for name, schema in schemas.items()}
    assert digests == PINNED, "a changed schema asks every stored question anew: raise the version of what asks it"
