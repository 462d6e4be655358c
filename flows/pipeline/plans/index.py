"""The steps that build indexes over an edition's documents."""

from flows.pipeline.plans.steps import Step, same_names
from schemas.identifiers import Field
from schemas.settings import IndexSettings
from tasks.index.ann import AnnSettings, ann
from tasks.index.bm25 import Bm25Settings, bm25
from tasks.index.embeddings import EmbeddingSettings, embeddings
from tasks.index.lsa import LsaSettings, lsa
from tasks.ranking.ann_recall import AnnRecallSettings, ann_recall


def plan_index(settings: IndexSettings) -> list[Step]:
    """Returns the steps that build indexes over the edition's documents."""
    lexical = [
        Step(f"bm25/{field}", bm25, Bm25Settings(field=field, stemming=settings.stemming), _indexed_inputs(field))
        for field in settings.bm25_fields
    ]
    dense = [
        Step(
            f"embeddings/{field}",
            embeddings,
            EmbeddingSettings(field=field, encoder=settings.encoder),
            _indexed_inputs(field),
        )
        for field in settings.dense_fields
    ]
    approximate = [
        Step(f"ann/{field}", ann, AnnSettings(kind=settings.ann), {"embeddings": f"embeddings/{field}"})
        for field in settings.dense_fields
        if settings.ann != "flat"
    ]
    latent = [
        Step(f"lsa/{field}", lsa, LsaSettings(field=field, dimensions=settings.lsa_dimensions), _indexed_inputs(field))
        for field in settings.lsa_fields
    ]
    measured = [
        Step(
            f"ann_recall/{field}",
            ann_recall,
            AnnRecallSettings(),
            {
                "ann": f"ann/{field}",
                "embeddings": f"embeddings/{field}",
                **same_names("topics", "documents", "surveys"),
            },
        )
        for field in settings.dense_fields
        if settings.ann != "flat"
    ]
    return [*lexical, *dense, *latent, *approximate, *measured]


def _indexed_inputs(field: Field) -> dict[str, str]:
    return same_names("documents", "full_texts") if field == "text" else same_names("documents")
