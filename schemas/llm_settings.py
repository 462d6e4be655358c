"""Settings of the one way to language models: endpoint, limits, caps on spending."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from pydantic import ConfigDict, Field, SecretStr, field_validator

from schemas.llm import ModelName, Price, Rehearsed
from schemas.llm_profile import ModelProfile, StructuredOutput, TokenField
from schemas.settings import Settings


class Cap(Settings):
    """A spending limit; None: no limit."""

    usd: float | None = Field(default=None, ge=0, description="USD.")
    tokens: int | None = Field(default=None, ge=0, description="Tokens read and written together.")


class BudgetSettings(Settings):
    """Spending limits of a run and of its stages. Spending is added up by the run's name, across processes."""

    run: str = Field(default="default", min_length=1, description="Name under which spending is added up.")
    cap: Cap = Cap()
    stages: Mapping[str, Cap] = Field(default={}, description="Further caps by stage name.")
    lease_s: float = Field(
        default=60.0, gt=0, description="Seconds after which the reservations of a killed process come back."
    )


class RateSettings(Settings):
    """Rate limits of one process (None: no limit), and the patience with those of the endpoint."""

    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    patience_s: float = Field(
        default=600.0, gt=0, description="Longest time that the endpoint may turn every call away, in seconds."
    )


class RetrySettings(Settings):
    """How often a call is retried, and how long each try may take."""

    tries: int = Field(default=6, ge=1, le=20, description="Number of tries in total, including the first.")
    base_s: float = Field(
        default=1.0, gt=0, description="Longest wait before the first retry, in seconds; it doubles with each retry."
    )
    cap_s: float = Field(
        default=60.0, gt=0, description="Longest wait, in seconds, even when the endpoint asks for more."
    )
    timeout_s: float = Field(default=300.0, gt=0, description="Longest time that one try may take, in seconds.")
    connect_timeout_s: float = Field(default=10.0, gt=0, description="Longest time to open a connection, in seconds.")


class OutageSettings(Settings):
    """When a stage stops because its calls fail, after all their tries. Refusals and caps are no failures."""

    first: int = Field(default=5, ge=1, description="It stops when all of its first calls fail, this many.")
    share: float = Field(default=0.25, gt=0, le=1, description="It stops when a larger share of its calls fails.")
    window: int = Field(default=100, ge=1, description="Number of latest calls that the share is taken of.")


class LlmSettings(Settings):
    """Which endpoint and model to use, and under which limits."""

    model_config = ConfigDict(hide_input_in_errors=True)

    base_url: str = Field(
        default="https://api.openai.com/v1", description="Endpoint, up to and with its /v1; `?api-version=` may follow."
    )
    model: Annotated[str, Field(min_length=1, description="Model by the endpoint's name.")]
    provider: str = Field(default="", description="Name of the endpoint in request keys; empty: the URL's host.")
    profiles: Mapping[str, ModelProfile] = Field(
        default={}, description="How to ask certain models, by a name of your own; after the built-in ones."
    )
    structured: StructuredOutput | None = Field(default=None, description="Overrides that of the profiles.")
    token_field: TokenField | None = Field(default=None, description="Overrides that of the profiles.")
    cache: Path | None = Field(default=None, description="SQLite file of replies and spending; empty: memory only.")
    cache_salt: str = Field(
        default="", max_length=100, description="Part of every request key: another word asks everything again."
    )
    replay: Path | None = Field(default=None, description="Sealed replay file: answer from it alone, ask nobody.")
    batch: bool = Field(
        default=False, description="Stages of the corpus ask through the batch service: cheaper, within a day."
    )
    batch_tokens: int | None = Field(
        default=None, ge=1, description="Tokens that may wait in batches at once; empty: learned from refusals."
    )
    batch_full_price: bool = Field(
        default=False, description="Calls that batches leave unanswered are asked one by one, at the full price."
    )
    concurrency: int = Field(default=32, ge=1, le=512, description="Number of concurrent calls.")
    rate: RateSettings = RateSettings()
    retry: RetrySettings = RetrySettings()
    outage: OutageSettings = OutageSettings()
    max_reply_bytes: int = Field(default=8 * 2**20, ge=1024, description="A longer reply is a failed call.")
    prices: Mapping[str, Price] = Field(default={}, description="Prices by model, before the price table.")
    budget: BudgetSettings = BudgetSettings()

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must be like https://host/v1")
        queried = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
        if parts.username or parts.password or parts.fragment or queried - {"api-version"}:
            raise ValueError(
                "base_url must hold no user, password, fragment or query other than api-version: keys are handed over "
                "apart"
            )
        return parts._replace(path=parts.path.rstrip("/")).geturl()

    @property
    def provider_name(self) -> str:
        """What stands for the endpoint in request keys. Ports are left out: a local server changes them freely."""
        return self.provider or _host(self.base_url)

    @property
    def model_name(self) -> ModelName:
        """The endpoint's name and the model, as results record them."""
        return ModelName(provider=self.provider_name, model=self.model)


@cache
def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


class LlmAccess(NamedTuple):
    """What a stage needs to ask a model; never part of a key, never stored.

    With a `rehearsal`, nothing is sent: calls are noted there by key, and those without a stored reply fail.
    """

    settings: LlmSettings
    api_key: SecretStr | None = None
    rehearsal: dict[str, Rehearsed] | None = None
