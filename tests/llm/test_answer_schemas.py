"""The JSON schemas that models are sent: their docstrings are in them, and hence in the keys of requests."""

import hashlib
import json

from pydantic import BaseModel

from schemas.mindmap import MapAnswer
from tasks.corpus.figures.maps import ChosenFigures, FigureTree
from tasks.corpus.survey_selector import SurveyAnswer
from tasks.paperqa.actions import Arguments, InParts
from tasks.search.judges.paper_lantern import Answer
from tasks.search.judges.score_only import Level

PINNED = {
    "SurveyAnswer": "1317c10eea82",
    "ChosenFigures": "ac5f0662980a",
    "FigureTree": "555411a90b57",
    "MapAnswer": "c74068f43c00",
    "Answer": "8f944fde146a",
    "Level": "46e551a36e1d",
    "Classic": "123a3365823f",
    "Expression": "ef063d7a1746",
    "FinalAnswer": "7f79a3747808",
    "FromDatabase": "0f1e36feb532",
    "FromVectors": "430fc5bcfa08",
    "InParts": "31452e4e2937",
    "PageView": "1b49dbc67760",
}


def test_schemas_are_those_that_stored_replies_were_asked_with() -> None:
    sent: list[type[BaseModel]] = [SurveyAnswer, ChosenFigures, FigureTree, MapAnswer, Answer, Level]
    sent += sorted([*Arguments.__subclasses__(), *InParts.__subclasses__()], key=lambda arguments: arguments.__name__)

    schemas = {answer.__name__: json.dumps(answer.model_json_schema(), sort_keys=True) for answer in sent}
    digests = {name: hashlib.sha256(schema.encode()).hexdigest()[:12] for name, schema in schemas.items()}
    assert digests == PINNED, "a changed schema asks every stored question anew: raise the version of what asks it"
