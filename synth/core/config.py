"""Configuration: a TOML file, overridden by `--set key.path=value`, checked as a whole.

Every key has a default, so that no file is needed. A misspelt key is an error with close names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PositiveInt, ValidationError, field_validator, model_validator

from synth.core.canonical import content_key
from synth.core.errors import BadConfig
from synth.core.happenings import Events
from synth.core.hearing import languages
from synth.core.inputs import read_text_input
from synth.core.outcomes import Outcomes
from synth.core.overrides import apply, explain
from synth.core.types import Frozen, TaskKind
from synth.core.users import Users

MAX_FILE = 1 << 20
"""Bytes of a configuration file."""
DEFAULT_MIX: dict[TaskKind, float] = {
    TaskKind.SINGLE_WRITE: 0.22,
    TaskKind.CHAINED_WRITES: 0.18,
    TaskKind.LOOKUP: 0.15,
    TaskKind.PARALLEL: 0.12,
    TaskKind.MISSING_FACT: 0.12,
    TaskKind.FORBIDDEN: 0.08,
    TaskKind.UNSERVED: 0.08,
    TaskKind.USER_ACT: 0.05,
}
"""Share of each kind of task. A third needs something other than straightforward calling: ToolACE
lost 79 points of irrelevance detection without such samples (papers: ToolACE 3.3.3)."""


Weight: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Price: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
LOCAL = "local:"
"""What the name of a model in this process begins with."""
DEFAULT_KEY = "OPENAI_API_KEY"


class ModelConfig(Frozen):
    """One model: behind an OpenAI-compatible endpoint, or `local:NAME` in this process."""

    model: str
    base_url: str | None = Field(default=None, pattern=r"^https?://[^/]")
    """Default: the `openai` package's own."""
    key_env: str | None = None
    """Name of the environment variable with the key; the key itself is never stored. None is
    `OPENAI_API_KEY`, which endpoints of one's own (`base_url`) do not need."""
    temperature: float = Field(default=0.6, ge=0, le=10, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=1024, ge=1, le=1_000_000)
    context: int | None = Field(default=None, ge=256, le=100_000_000)
    """Tokens the model can attend to; None leaves it to the endpoint."""
    tool_calls: Literal[
        "native",
        "hermes",
        "hermes-json",
        "json",
        "kimi-k2",
        "llama3",
        "llama3-tag",
        "mistral",
        "mistral-v3",
        "mistral-v11",
    ] = "native"
    """How it calls tools: in fields of the API, or as text of a family, which is written and read
    here. For endpoints that return calls as text."""
    reasoning: Literal["omit", "send"] = "omit"
    """Whether earlier reasoning goes back to the model: some endpoints refuse a history without
    `reasoning_content`, others one with it. It is kept in the record either way."""
    finish_reason: Literal["required", "optional"] = "required"
    """A reply that does not say why it ended may be cut off; `optional` trusts it all the same."""
    candidates: int = Field(default=1, ge=1, le=16)
    """Of the user's role: drafts of a message that `[models.critic]` chooses among."""
    stream: bool = False
    """Let replies come in pieces: where something between here and the model cuts idle lines."""
    timeout_s: float = Field(default=120.0, gt=0, le=86_400)
    """Whole call, waiting and retries included."""
    attempt_s: float | None = Field(default=None, gt=0, le=86_400)
    """One try of it; None is half of `timeout_s`, so that a hung one leaves time for another."""
    concurrency: int = Field(default=64, ge=1, le=10_000)
    """Requests in flight at most, fewer while it is busy; roles of one endpoint share the most."""
    price_in: Price | None = None
    """Money for a million tokens of prompt; None is unknown, which is not 0."""
    price_out: Price | None = None
    """Money for a million tokens of reply."""
    price_cached: Price | None = None
    """Money for a million prompt tokens that the endpoint had cached; None is `price_in`."""

    @field_validator("base_url")
    @classmethod
    def _without_secrets(cls, url: str | None) -> str | None:
        if url is not None and "@" in url.split("/")[2]:
            raise ValueError("no user or password in an address: name a variable in key_env")
        return url


class Models(Frozen):
    """Who plays which role; None is the scripted player, or nobody."""

    user: ModelConfig | None = None
    agent: ModelConfig | None = None
    world: ModelConfig | None = None
    judge: ModelConfig | None = None
    evolver: ModelConfig | None = None
    critic: ModelConfig | None = None
    default: dict[str, Any] | None = Field(default=None, exclude=True)
    """What the roles that are given say unless they say otherwise; gives no role by itself."""

    @model_validator(mode="before")
    @classmethod
    def _inherit(cls, data: Any) -> Any:
        shared = data.get("default") if isinstance(data, dict) else None
        if not isinstance(shared, dict):
            return data
        return {
            role: {**shared, **own} if isinstance(own, dict) and role in ROLES else own
            for role, own in data.items()
        }

    @field_validator("default")
    @classmethod
    def _known(cls, default: dict[str, Any] | None) -> dict[str, Any] | None:
        ModelConfig.model_validate({"model": "", **(default or {})})
        return default

    def roles(self) -> dict[str, ModelConfig]:
        """Return the roles that are given a model."""
        found = ((role, getattr(self, role)) for role in ROLES)
        return {role: config for role, config in found if config is not None}

    @property
    def drafts(self) -> int:
        """Drafts of each message of a model user; the critic chooses where they are several."""
        return self.user.candidates if self.user else 1

    def asked(self) -> dict[str, ModelConfig]:
        """Return those of `roles` that generating asks for anything."""
        asked = {"user", "agent"} | ({"critic"} if self.drafts > 1 else set())
        return {role: config for role, config in self.roles().items() if role in asked}


ROLES = tuple(name for name in Models.model_fields if name != "default")


class Budget(Frozen):
    """Hard stops of a run, earlier sessions included; None is no limit."""

    requests: int | None = Field(default=None, ge=1)
    """Requests sent to endpoints, retries included."""
    tokens: int | None = Field(default=None, ge=1)
    """Tokens of prompts and replies; where an endpoint does not say, the most it can have been."""
    money: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """In the currency of the prices."""
    failures: float = Field(default=0.5, ge=0, le=1)
    """Share of the last 50 episodes that may end without a verdict before the run stops."""


class Errors(Frozen):
    """How often the reference agent errs on purpose, so that the judge has something to reject."""

    rate: float = Field(default=0.1, ge=0, le=1)
    """Share of episodes with one deliberate mistake."""


class Limits(Frozen):
    """Bounds of one episode."""

    turns: int = Field(default=24, ge=1)
    """Messages of the agent, those with calls included."""
    calls: int = Field(default=32, ge=1)
    """A turn that asks for more than are left ends the episode unexecuted."""
    seconds: float | None = Field(default=300.0, gt=0, allow_inf_nan=False)
    """Wall clock of an episode; None (in code only) is no deadline."""


class Generate(Frozen):
    """What is generated."""

    applications: tuple[str, ...] = Field(default=(), examples=[["hotel"]])
    """Names or files, or a single one of them; empty means all that are installed. `evolved:*` are
    those that `toolloom evolve` made in this workspace, `evolved:NAME` is one of them; `twin:*` are
    those that `toolloom twins` made."""
    mix: dict[TaskKind, Weight] = Field(
        default=DEFAULT_MIX, examples=[{"lookup": 0.5, "single_write": 0.5}]
    )
    agents: int = Field(default=30, ge=1)
    """Distinct agents for each application."""
    states: int = Field(default=20, ge=1)
    """Distinct seeded worlds for each application."""
    tools: tuple[PositiveInt, PositiveInt] = (6, 12)
    """Smallest and largest toolset."""
    errors: Errors = Errors()
    outcomes: Outcomes = Outcomes()
    events: Events = Field(default=0.0, examples=[True])
    """Share of what can happen by itself that does; where it is above 0, clocks move."""
    users: Users = Field(default=Users(), exclude_if=lambda users: users == Users())
    limits: Limits = Limits()
    languages: dict[str, Weight] = Field(default={"en": 1.0}, examples=[{"en": 0.5, "de": 0.5}])
    """Share of episodes in each language; where an application has no words in it, in English."""
    live_share: float = Field(default=0.0, ge=0, le=1)
    """Share of episodes on live MCP servers that were crawled."""
    coding_share: float = Field(default=0.0, ge=0, le=1, exclude_if=lambda share: share == 0)
    """Share of episodes on coding and file chores in the sandbox, judged by hidden tests."""
    imagined: tuple[str, ...] = Field(default=(), examples=[["hotel"]])
    """Those of the applications whose tools `[models.world]` plays in episodes, or a program that
    answers as SQL does; tasks and their truth stay SQL's."""
    imagined_excerpt: int = Field(default=2_000, ge=100, le=1_000_000)
    """Tokens of rows that it is shown for a call."""

    @field_validator("applications", "imagined", mode="before")
    @classmethod
    def _one_is_a_list(cls, names: Any) -> Any:
        return [names] if isinstance(names, str) else names

    @field_validator("mix")
    @classmethod
    def _has_weight(cls, mix: dict[TaskKind, float]) -> dict[TaskKind, float]:
        if not sum(mix.values()) > 0:
            raise ValueError("no kind of task has a weight above 0")
        return mix

    @field_validator("languages")
    @classmethod
    def _are_spoken(cls, shares: dict[str, float]) -> dict[str, float]:
        if unknown := set(shares) - set(languages()):
            raise ValueError(
                f"not spoken here: {', '.join(sorted(unknown))}; known: {', '.join(languages())}"
            )
        if not sum(shares.values()) > 0:
            raise ValueError("no language has a weight above 0")
        return shares

    @field_validator("tools")
    @classmethod
    def _smallest_first(cls, tools: tuple[int, int]) -> tuple[int, int]:
        if tools[0] > tools[1]:
            raise ValueError(f"the smallest toolset is larger than the largest: {list(tools)}")
        return tools


class Sft(Frozen):
    """Supervised fine-tuning. The reports give no settings for K2; these suit a small model."""

    tokens: int = Field(default=20_000, ge=1)
    """Most tokens computed in all; a prompt that rows share is computed once."""
    lr: float = Field(default=3e-4, gt=0)
    epochs: int = Field(default=3, ge=1)


class Rl(Frozen):
    """Reinforcement learning with the sequence-level objective of K1.5 and K2."""

    iterations: int = Field(default=4, ge=1)
    tasks: int = Field(default=4, ge=1)
    """Tasks of one iteration."""
    k: int = Field(default=4, ge=2)
    """Episodes of each task."""
    tau: float = Field(default=0.1, gt=0)
    lr: float = Field(default=1e-5, gt=0)
    inner_steps: int = Field(default=2, ge=1)
    temperature: float = Field(default=1.0, gt=0)


class Train(Frozen):
    """What the trainers do."""

    model: str = "smollm2"
    """Name to fetch, Hugging Face folder, `.gguf` file, or `tiny` (made from nothing)."""
    episodes: int = Field(default=16, ge=1)
    """Episodes of an evaluation."""
    checkpoint_s: float = Field(default=120.0, ge=0, allow_inf_nan=False)
    """Least seconds between checkpoints of a training run: what a crash may cost. More where
    writing them would take over a twentieth of the time."""
    sft: Sft = Sft()
    rl: Rl = Rl()


_HOW = {
    *("base_url", "key_env", "stream", "finish_reason", "timeout_s", "attempt_s", "concurrency"),
    *("price_in", "price_out", "price_cached"),
}
_DECIDES_NOTHING: dict[str, Any] = {
    "train": True,
    "generate": {"limits": {"seconds"}},
    "models": dict.fromkeys(ROLES, _HOW),
    "budget": True,
}
"""What the fingerprint leaves out: where a model is reached, how long is waited for it and what it
costs."""


def _paths(tree: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys of what pydantic shall exclude."""
    out = []
    for key, below in tree.items():
        if below is True:
            out.append(key)
        elif isinstance(below, set):
            out += [f"{key}.{name}" for name in sorted(below)]
        else:
            out += [f"{key}.{path}" for path in _paths(below)]
    return out


class Config(Frozen):
    """The whole configuration."""

    seed: int = Field(default=0, ge=-(2**53), le=2**53)
    generate: Generate = Generate()
    models: Models = Models()
    budget: Budget = Budget()
    train: Train = Train()

    def asked(self) -> dict[str, ModelConfig]:
        """Return the roles that generating asks, and their models."""
        world = self.models.world if self.generate.imagined else None
        return self.models.asked() | ({"world": world} if world else {})

    def fingerprint(self, made_of: Mapping[str, str] | None = None) -> str:
        """Hash of everything that decides what a run contains.

        Args:
            made_of: name -> content key of what is not in the configuration itself: the
                applications and prompts.
        """
        decisive = self.model_dump(mode="json", exclude=_DECIDES_NOTHING)
        return content_key([decisive, dict(made_of or {})])

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """Return `key: other -> this` for every difference that the fingerprint covers.

        Args:
            other: a configuration as `model_dump` gives it, perhaps of another version.
        """
        found = changes(other, self.model_dump(mode="json"))
        ignored = tuple(f"{key}{end}" for key in _paths(_DECIDES_NOTHING) for end in ".:")
        return [line for line in found if not line.startswith(ignored)]


def load_config(path: Path | None = None, overrides: Iterable[str] = ()) -> Config:
    """Read `path` (if any), apply `a.b=c` overrides, and check the result.

    Raises:
        BadConfig: file, key or value is wrong.
    """
    data: dict[str, Any] = {}
    overrides = list(overrides)
    if path is not None:
        text = read_text_input(path, kind=BadConfig, most=MAX_FILE)
        try:
            data = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            what = "nested too deep" if isinstance(error, RecursionError) else f"not TOML: {error}"
            raise BadConfig(what, where=str(path), remedy="mend that place") from error
    for override in overrides:
        apply(data, override)
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise explain(error, Config, path, overrides) from error


def change_config(config: Config, overrides: Iterable[str]) -> Config:
    """Return a configuration in which `a.b=c` overrides stand in place of what was said before.

    Raises:
        BadConfig: a key or value is wrong.
    """
    overrides = list(overrides)
    data = config.model_dump(mode="json")
    # A role without a model is no table that a key could be set in.
    data["models"] = {role: model for role, model in data["models"].items() if model is not None}
    for override in overrides:
        apply(data, override)
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise explain(error, Config, None, overrides) from error


def changes(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return `key: old -> new` for every difference of two configurations."""
    out = []
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key), new.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            out += changes(a, b, f"{prefix}{key}.")
        elif a != b:
            out.append(f"{prefix}{key}: {a!r} -> {b!r}")
    return out
