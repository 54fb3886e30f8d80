"""The result of one run: a small file that is written once, whole, and can be carried anywhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from hansa.api.bucket_documents import Count, EvaluationDocument, TaskTallies, canonical
from hansa.api.spec import differences
from hansa.compare.comparison import CheckedComparison, Run
from hansa.core import stats
from hansa.core.errors import InputError, InvalidDocument
from hansa.core.files import replace_file
from hansa.core.model import Model
from hansa.core.text import ellipsize

RESULTS = "results"
"""Folder of the result files inside that of the comparison."""


Tallies = Mapping[str, list[int]]
"""Successes and episodes of tasks, by their ids."""
_NONE: Tallies = {}


class Row(Model):
    """How one adapter did in one environment."""

    model: str
    """The base model."""
    method: str
    """The method that made the adapter."""
    seed: int
    """The run's seed."""
    environment: str
    """Environment whose held-out tasks were played."""
    world: str
    """Its world."""
    of: str = ""
    """Environment whose own adapter this is; empty: one adapter for all."""
    round: Count
    """Round that made the adapter; 0 is the base."""
    success: float
    """Share of the episodes that succeeded."""
    tasks: Count
    """Distinct tasks."""
    episodes: Count
    """Episodes."""
    effective: float
    """Independent episodes that these are worth; fewer where tasks were played several times."""
    interval: Annotated[list[float], Field(min_length=2, max_length=2)]
    """Limits of the success, 95 %: Wilson's, clustered by task."""
    greedy: float | None = None
    """Share of the tasks that it solves greedily, where they were played so, too."""


class RunWork(Model):
    """What a run did, over all its clients and rounds."""

    explored: Count = 0
    """Episodes explored."""
    succeeded: Count = 0
    """Those that succeeded."""
    generated: Count = 0
    """Tokens generated to explore."""
    steps: Count = 0
    """Optimizer steps."""
    tokens: Count = 0
    """Tokens trained on."""
    seconds: float = 0.0
    """Seconds of all Jobs together: what one machine with one slot would have taken."""


class Communication(Model):
    """What left the silos and came back."""

    shares: Literal["nothing", "adapters", "trajectories"]
    """What had to be sent."""
    up: Count = 0
    """Bytes that the silos sent, in all rounds."""
    down: Count = 0
    """Bytes that they received."""


class RunResult(Model):
    """One run that is over."""

    version: Literal[1] = 1
    """Version of this document."""
    program: str
    """Version of the program that wrote it."""
    method: str
    """Name of the method."""
    base: str
    """The known method that it is, or changes."""
    seed: int
    """The seed."""
    spec: dict[str, Any]
    """What was run; a result of another spec is refused."""
    left_out: list[dict[str, Any]] = Field(default_factory=list)
    """Environments that took no part and were scored."""
    base_model: str = ""
    """Digest of the base model's files, where the run has noted it."""
    rows: list[Row]
    """What was measured."""
    final: Count = 0
    """Round of the adapter that counts at the end; a guard may have gone back to it."""
    serves: dict[str, str] = Field(default_factory=dict)
    """What each silo serves itself, where it chooses."""
    communication: Communication
    """What was sent."""
    work: RunWork
    """What was done."""
    wall_seconds: float
    """How long it took here; time before a hard kill is not counted."""
    machine: str
    """What it ran on."""


def file(out: Path, run: Run) -> Path:
    """Where a run's result is."""
    return out / RESULTS / f"{run.id}.json"


def row(
    run: Run, environment: str, tasks: Tallies, round_: int, of: str = "", greedy: Tallies = _NONE
) -> Row:
    """A row from the successes and episodes of each task, sampled and greedy."""
    counts = {name: (each[0], each[1]) for name, each in tasks.items()}
    figure = stats.clustered_interval(counts)
    return Row(
        model=run.federation.spec.model.source,
        method=run.method,
        seed=run.seed,
        environment=environment,
        world=run.silos.spec.environment(environment).world,
        of=of,
        round=round_,
        success=round(figure.value, 6),
        tasks=len(counts),
        episodes=sum(played for _, played in counts.values()),
        effective=round(stats.effective_episodes(list(counts.values())) if counts else 0.0, 2),
        interval=[round(figure.low, 6), round(figure.high, 6)],
        greedy=_share(greedy),
    )


def _share(tasks: Tallies) -> float | None:
    played = sum(each[1] for each in tasks.values())
    return round(sum(each[0] for each in tasks.values()) / played, 6) if played else None


def convert_evaluation(run: Run, document: EvaluationDocument, round_: int, of: str = "") -> Row:
    """A row from an evaluation's counts."""
    name, greedy = document.environment, document.greedy_figures
    worth = document.effective()
    episodes = float(document.episodes) if worth is None else worth
    figure = stats.rate_interval(document.successes / max(1, document.episodes), episodes)
    empty = row(run, name, {}, round_, of)
    return empty.model_copy(
        update={
            "success": round(figure.value, 6),
            "tasks": min(document.task_count, document.episodes),
            "episodes": document.episodes,
            "effective": round(episodes, 2),
            "interval": [round(figure.low, 6), round(figure.high, 6)],
            "greedy": _share({"": [greedy.successes, greedy.episodes]} if greedy else {}),
        }
    )


def split_by_environment(run: Run, tallies: TaskTallies) -> dict[str, tuple[Tallies, Tallies]]:
    """A pool's evaluation by environment, sampled and greedy: its tasks carry their names."""
    sampled, greedy = (_split(run, tallies, tasks) for tasks in (tallies.tasks, tallies.greedy))
    return {name: (sampled[name], greedy[name]) for name in sampled}


def _split(run: Run, tallies: TaskTallies, tasks: Tallies) -> dict[str, Tallies]:
    split: dict[str, dict[str, list[int]]] = {e.name: {} for e in run.silos.spec.environments}
    for task, counts in tasks.items():
        name, _, own = task.partition("/")
        if name not in split:
            raise InvalidDocument(
                f"evaluation of {tallies.environment}: tasks: got {task!r}, of no silo"
            )
        split[name][own] = counts
    return dict(split)


def write(out: Path, run: Run, result: RunResult) -> None:
    """Write a result, whole or not at all."""
    path = file(out, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, canonical(result.to_json()))


def read(out: Path, run: Run) -> RunResult | None:
    """A run's result, once it is there; one of another spec is refused by the field."""
    path = file(out, run)
    try:
        result = RunResult.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        first = str(error).splitlines()[0][:100]
        raise InputError(
            f"{path}: got something else than a result ({first})",
            hint="remove the file to make it again",
        ) from None
    hint = "remove the file to make it again, set the field back, or choose another --out"
    check_same(run, str(path), result.spec, hint)
    _refuse(str(path), _key_by_name(result.left_out), _key_by_name(run.left_out), hint)
    return result


def check_same(run: Run, what: str, spec: dict[str, Any], hint: str) -> None:
    """Refuse what was made with another spec than the run's: its figures are another run's."""
    _refuse(what, spec, run.federation.spec.to_json(), hint)


def _key_by_name(environments: list[dict[str, Any]]) -> dict[str, Any]:
    return {"environments": {str(each.get("name")): each for each in environments}}


def _refuse(what: str, theirs: dict[str, Any], ours: dict[str, Any], hint: str) -> None:
    changed = differences(theirs, ours)
    if changed:
        where, then, now = changed[0]
        raise InputError(
            f"{what}: was made with spec.{where} {ellipsize(str(then))}, the comparison now says "
            f"{ellipsize(str(now))}",
            hint=hint,
        )


def read_results(out: Path, wanted: CheckedComparison) -> dict[str, RunResult]:
    """All results that are there, by the run's id; those of two base models are not mixed."""
    known = {run.id: result for run in wanted.runs if (result := read(out, run))}
    bases: dict[str, str] = {}
    for name, result in known.items():
        if result.base_model:
            bases.setdefault(result.base_model, name)
    if len(bases) > 1:
        first, second, *_ = bases.values()
        raise InputError(
            f"{out / RESULTS / second}.json: was made with another base model than {first}.json",
            hint="remove those of the one that you do not mean",
        )
    return known
