"""What flows tell the Prefect server besides states: a release is there, an edition was published, a stage failed."""

from prefect.events import emit_event

RELEASE_AVAILABLE = "arena.release.available"
RELEASE_REFUSED = "arena.release.refused"
EDITION_PUBLISHED = "arena.edition.published"
STAGE_FAILED = "arena.stage.failed"


def tell_release(release: str) -> None:
    """A release that can be built has appeared, and the weekly job takes it up.

    Said of `arena.release.<id>`, which anyone else may, the same event starts the weekly job (`deploy`).
    """
    emit_event(
        RELEASE_AVAILABLE,
        resource={"prefect.resource.id": f"arena.week.{release}", "prefect.resource.name": release},
        payload={"release": release},
    )


def tell_refused(release: str, reason: str) -> None:
    """A release is not as expected and is not built; `reason` says what was seen against what."""
    emit_event(
        RELEASE_REFUSED,
        resource={"prefect.resource.id": f"arena.release.{release}", "prefect.resource.name": release},
        payload={"release": release, "reason": reason},
    )


def tell_published(edition: str, release: str) -> None:
    """An edition was published."""
    emit_event(
        EDITION_PUBLISHED,
        resource={"prefect.resource.id": f"arena.edition.{edition}", "prefect.resource.name": edition},
        payload={"edition": edition, "release": release},
    )


def tell_failed(slot: str, cause: str) -> None:
    """A stage ended without a dataset; `cause` is its message, which holds no secret."""
    emit_event(
        STAGE_FAILED,
        resource={"prefect.resource.id": f"arena.stage.{slot}", "prefect.resource.name": slot},
        payload={"slot": slot, "cause": cause},
    )
