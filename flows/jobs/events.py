"""Events that flows send to the Prefect server: what the weekly job found, published editions, failed stages."""

from prefect.events import emit_event

RELEASE_AVAILABLE = "arena.release.available"
RELEASE_REFUSED = "arena.release.refused"
NOTHING_NEW = "arena.release.nothing-new"
EDITION_PUBLISHED = "arena.edition.published"
STAGE_FAILED = "arena.stage.failed"


def emit_release_available(release: str) -> None:
    """Announces that the weekly job has found a release and builds it.

    Sent by anyone else for the resource `arena.release.<id>`, the same event starts the weekly job.
    """
    emit_event(
        RELEASE_AVAILABLE,
        resource={"prefect.resource.id": f"arena.week.{release}", "prefect.resource.name": release},
        payload={"release": release},
    )


def emit_release_refused(release: str, reason: str) -> None:
    """Announces that a release is refused and not built; `reason` says what was found and what was expected."""
    emit_event(
        RELEASE_REFUSED,
        resource={"prefect.resource.id": f"arena.release.{release}", "prefect.resource.name": release},
        payload={"release": release, "reason": reason},
    )


def emit_nothing_new(last: str | None) -> None:
    """Announces that the weekly job found no release after the one that was built last (None: none at all)."""
    emit_event(
        NOTHING_NEW,
        resource={
            "prefect.resource.id": f"arena.week.after.{last or 'nothing'}",
            "prefect.resource.name": last or "none",
        },
        payload={"after": last},
    )


def emit_edition_published(edition: str, release: str) -> None:
    """Announces that an edition was published."""
    emit_event(
        EDITION_PUBLISHED,
        resource={"prefect.resource.id": f"arena.edition.{edition}", "prefect.resource.name": edition},
        payload={"edition": edition, "release": release},
    )


def emit_stage_failed(slot: str, cause: str) -> None:
    """Announces that a stage failed; `cause` is its message, which holds no secret."""
    emit_event(
        STAGE_FAILED,
        resource={"prefect.resource.id": f"arena.stage.{slot}", "prefect.resource.name": slot},
        payload={"slot": slot, "cause": cause},
    )
