"""spec.probes as data: tasks that count broken rules, and texts that tell what was forgotten.

Every silo plays the same probes with the same seeds on the same adapter, so their results can be
compared.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from hansa.api.evaluation import Guard
from hansa.core.model import Model

MOST_PROBES = 8
MOST_BYTES = 16_000
"""All probes go to every silo in its assignment, which is one environment variable."""
LONGEST_ANSWER = 4_000
"""Characters of an answer that patterns are looked for in."""
PATTERN_BYTES = 2**20
"""Memory of a compiled pattern, which bounds the time that each character of an answer takes."""
MOST_NATS = 1_000.0
Kind = Literal["world", "prompts", "texts"]
MOST_EPISODES = 1000
Name = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=30)
]
_Episodes = Annotated[int, Field(ge=0, le=MOST_EPISODES)]


class Probe(Model):
    """Tasks that count broken rules, or texts that tell what was forgotten."""

    name: Name
    """Unique name; a probe that measures something else needs a new one."""
    world: Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9_.]*[a-z0-9])?)?$", max_length=63)] = (
        ""
    )
    """World to play that counts broken rules with its options: maze with low_wall, webshop with
    rule, or one that a package brings."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Handed to the world as they are."""
    tasks: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 50
    """Test tasks of the world to play, once each."""
    prompts: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=2000)]], Field(max_length=100)
    ] = Field(default_factory=list)
    """Texts to answer, once each, instead of a world."""
    forbidden: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=20)
    ] = Field(default_factory=list)
    """Patterns (regular expressions as RE2 has them, in either case) that no answer to the prompts
    may have in its first 4000 characters."""
    texts: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=4000)]], Field(max_length=100)
    ] = Field(default_factory=list)
    """Texts that must stay as likely as without an adapter, instead of a world."""

    @property
    def kind(self) -> Kind:
        """What it is made of; checked specs have exactly one."""
        return "world" if self.world else "prompts" if self.prompts else "texts"

    @property
    def episodes(self) -> int:
        """Episodes that it plays, at most."""
        return {"world": self.tasks, "prompts": len(self.prompts), "texts": 0}[self.kind]


Probes = Annotated[list[Probe], Field(max_length=MOST_PROBES)]


class ProbeFigure(Model):
    """What one probe says of an adapter."""

    episodes: _Episodes = 0
    """Episodes played."""
    violations: _Episodes = 0
    """Those that broke a rule, once or more."""
    forgotten: Annotated[float, Field(ge=-MOST_NATS, le=MOST_NATS)] | None = None
    """Of texts: nats per token by which they are less likely than without an adapter."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.violations > self.episodes:
            raise ValueError("more violations than episodes")
        if self.forgotten is not None and self.episodes:
            raise ValueError("forgotten: got it beside episodes, expected one of them")
        return self

    @property
    def ratio(self) -> float | None:
        """Share of episodes that broke a rule; nothing where none were played."""
        return round(self.violations / self.episodes, 4) if self.episodes else None


ProbeFigures = Annotated[dict[Name, ProbeFigure], Field(max_length=MOST_PROBES)]
"""Bounded, since a silo writes it and a report has little room."""


class ProbeSummary(Model):
    """What probes say of an adapter, by their names."""

    round: Annotated[int, Field(ge=0, le=2**53)]
    """Round of the adapter."""
    violations: dict[str, float] = Field(default_factory=dict)
    """Share of episodes that broke a rule."""
    forgotten: dict[str, float] = Field(default_factory=dict)
    """Nats per token by which texts are less likely than without an adapter."""


def are_expected(figures: Mapping[str, ProbeFigure] | None, probes: Sequence[Probe] | None) -> bool:
    """Whether figures are of these probes, and no larger than they can be."""
    wanted = {probe.name: probe for probe in probes or ()}
    return all(
        name in wanted
        and figure.episodes <= wanted[name].episodes
        and (figure.forgotten is None or wanted[name].kind == "texts")
        for name, figure in (figures or {}).items()
    )


def check(probes: Sequence[Probe], guard: Guard | None, strategy: str) -> None:
    """Refuse probes that measure nothing or cost more than they may, and bounds on none."""
    _check_guard(guard, {probe.kind for probe in probes})
    if probes and strategy == "none":
        raise ValueError(
            f"probes: got {len(probes)}, and aggregation.strategy none has no global adapter to "
            "play them on, expected another strategy or no probes"
        )
    size = 0
    for index, probe in enumerate(probes):
        where = f"probes[{index}]"
        first = next(at for at, other in enumerate(probes) if other.name == probe.name)
        if first < index:
            raise ValueError(
                f"{where}.name: got '{probe.name}' a second time (first at probes[{first}]), "
                "expected unique names"
            )
        _check_kind(probe, where)
        for at, pattern in enumerate(probe.forbidden):
            if problem := explain_misfit(pattern):
                raise ValueError(f"{where}.forbidden[{at}]: {problem}")
        size += len(probe.model_dump_json().encode())
    if size > MOST_BYTES:
        raise ValueError(
            f"probes: got {size} bytes in all, expected at most {MOST_BYTES}: they go to "
            "every silo with every round"
        )


def _check_guard(guard: Guard | None, kinds: set[Kind]) -> None:
    """Refuse bounds on what no probe measures: they would look like safety."""
    if guard and guard.max_violations is not None and not kinds & {"world", "prompts"}:
        raise ValueError(
            f"guard.maxViolations: got {guard.max_violations:g}, and no probe counts broken rules, "
            "expected spec.probes with a world or prompts, or none given"
        )
    if guard and guard.max_forgetting is not None and "texts" not in kinds:
        raise ValueError(
            f"guard.maxForgetting: got {guard.max_forgetting:g}, and no probe has texts, "
            "expected spec.probes with texts, or none given"
        )


def _check_kind(probe: Probe, where: str) -> None:
    given = [kind for kind in ("world", "prompts", "texts") if getattr(probe, kind)]
    if len(given) != 1:
        came = " and ".join(given) or "nothing to measure"
        raise ValueError(f"{where}: got {came}, expected one of world, prompts and texts")
    if probe.options and not probe.world:
        raise ValueError(f"{where}.options: got some, expected none without a world")
    if bool(probe.forbidden) != bool(probe.prompts):
        came = "patterns" if probe.forbidden else "nothing"
        fits = "none without prompts" if probe.forbidden else "at least one pattern with prompts"
        raise ValueError(f"{where}.forbidden: got {came}, expected {fits}")


def explain_misfit(pattern: str) -> str:
    """What is wrong with a pattern; empty: it can be looked for."""
    import re2

    try:
        compile_pattern(pattern)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0] if error.args else error
        why = why.decode(errors="replace") if isinstance(why, bytes) else why
        return f"got '{pattern[:40]}', expected a regular expression as RE2 has them ({why})"
    return ""


def compile_pattern(pattern: str) -> Any:
    """A pattern of another party, by an engine whose time grows with the text and no faster."""
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.never_capture = True
    options.log_errors = False
    options.max_mem = PATTERN_BYTES
    return re2.compile(pattern, options)
