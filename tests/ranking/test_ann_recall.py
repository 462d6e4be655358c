"""Recall of an approximate index on topics: exact under narrow filters, as numpy says under wide ones."""

from datetime import date

import numpy as np
import orjson
import pytest

from schemas.manifest import Ref
from schemas.settings import EncoderSettings
from tasks.index.ann import AnnSettings, ann
from tasks.index.embeddings import EmbeddingSettings, embeddings
from tasks.index.toy_model import TOY
from tasks.ranking.ann_recall import AnnRecallSettings, ann_recall
from tasks.store.store import Request, Store
from tests.published import publish_documents, publish_surveys, publish_topics, topic_row

WORDS = [f"w{number}" for number in range(60)]


@pytest.fixture
def inputs(store: Store) -> dict[str, Ref]:
    """Documents of 2019, every tenth of 2020; topics of 2019 see nothing, those of 2020 the older ones."""
    rng = np.random.default_rng(1)
    texts = {i: (" ".join(rng.choice(WORDS, 6)), None) for i in range(1, 801)}
    documents = publish_documents(store, texts, late=[i for i in texts if i % 10 == 0])
    settings = EmbeddingSettings(field="title", encoder=EncoderSettings(model=TOY))
    made = store.build(Request(embeddings, settings, {"documents": documents})).ref
    rows = [topic_row(1000 + n, " ".join(rng.choice(WORDS, 4))) for n in range(8)]
    rows += [row | {"topic_id": row["topic_id"] + 50, "horizon": date(2009, 1, 1)} for row in rows[:3]]
    return {
        "topics": publish_topics(store, rows, {}),
        "documents": documents,
        "surveys": publish_surveys(store, [7]),
        "embeddings": made,
        "ann": store.build(Request(ann, AnnSettings(kind="ivf"), {"embeddings": made})).ref,
    }


def test_recall_is_measured_by_horizon_and_by_share(store: Store, inputs: dict[str, Ref]) -> None:
    request = Request(ann_recall, AnnRecallSettings(), inputs)
    found = orjson.loads(store.open(store.build(request).ref).path("recall.json").read_bytes())
    assert (found["kind"], found["topics"]) == ("ivf", 11)
    early, late = found["by_horizon"]
    assert (early["name"], early["topics"], early["allowed"], early["recall"]) == ("2005-2009", 3, 0.0, 1.0)
    assert late["topics"] == 8
    assert late["allowed"] == pytest.approx((800 - 80 - 1) / 800)
    assert 0.3 < late["recall"] <= 1
    assert [row["name"] for row in found["by_share"]] == ["100%", "10%", "2%"]
    assert found["by_share"][0]["allowed"] == 1
    assert all(row["lacking_hits"] == 0 for row in [*found["by_horizon"], *found["by_share"]])
