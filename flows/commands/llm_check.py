"""Command `arena llm check`: probes a model, and prints the profile to paste."""

import asyncio
from typing import TYPE_CHECKING

from flows.commands.options import Folder, open_store
from flows.commands.terminal import show_json, show_rows, show_text
from flows.pipeline.models import choose_model, model_access
from schemas.errors import UsageError

if TYPE_CHECKING:
    from schemas.llm_settings import LlmAccess
    from tasks.llm.check import Checked


def check(model: str | None = None, *, folder: Folder = None, json: bool = False) -> None:
    """Ask a model some ten short questions, and say what it takes: parameters, forms, tools, pictures, its context.

    Prints the lines to paste into the TOML file that ARENA_LLM_SETTINGS names where the model differs from the profiles
    that apply to it. The questions are not stored, and count towards no cap.

    Args:
        model: Model by the endpoint's name; left out: ARENA_LLM_MODEL.
        json: Print as JSON.
    """
    root = open_store(folder).root
    chosen = choose_model(root, model)
    access = model_access(root)
    if access is None or access.settings.replay:
        raise UsageError("a replay file cannot be checked; unset ARENA_LLM_REPLAY and name an endpoint")
    settings = access.settings.model_copy(update={"model": chosen.model})
    checked = asyncio.run(_check(access._replace(settings=settings)))
    if json:
        show_json({**checked._asdict(), "findings": dict(checked.findings), "profile": checked.toml(chosen.model)})
        return
    title = f"{chosen.model} of {chosen.provider}: {checked.calls} calls, {checked.tokens.total:,} tokens"
    show_rows([finding._asdict() for finding in checked.findings], title)
    applied = ", ".join(checked.applied) or "the plain one"
    if not checked.changes:
        show_text(f"The profiles that apply fit ({applied}).")
        return
    show_text(f"It differs from the profiles that apply ({applied}). In the file of ARENA_LLM_SETTINGS:\n")
    show_text(checked.toml(chosen.model))


async def _check(access: "LlmAccess") -> "Checked":
    from tasks.llm.check import check_model
    from tasks.llm.provider import OpenAiProvider

    provider = OpenAiProvider(access.settings, access.api_key)
    try:
        return await check_model(access.settings, provider)
    finally:
        await provider.close()
