"""A silo with several worlds plays what as many silos would have played, and learns from all."""

from collections.abc import Callable
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.core import logs
from hansa.core.errors import PermanentError
from hansa_client import figures
from hansa_client.experience.shards import Shards
from hansa_client.last import evaluate_only
from hansa_client.rollout import mixed_silo, tasks
from hansa_client.round import play_round
from hansa_client.silo import Silo
from hansa_worlds import DEMO_OPTIONS, OptionError, make
from tests.support.memory_store import MemoryStore

Assign = Callable[..., Assignment]
NAMES = ("maze", "wordle")
PARTS = [{"name": n, "world": n, "options": {**DEMO_OPTIONS[n], "max_turns": 3}} for n in NAMES]
POOLED: dict[str, Any] = {
    "environment": "centre",
    "environments": ["centre"],
    "world": "mixed",
    "options": {"worlds": PARTS},
}


def alone(assign: Assign, part: dict[str, Any], **fields: Any) -> Assignment:
    values = {"environment": part["name"], "environments": [part["name"]], "world": part["world"]}
    return assign(**values, options=part["options"], **fields)


def shown(assignment: Assignment) -> tuple[MemoryStore, list[tuple[str, list[str]]]]:
    """The store after a round, and its demonstrations as (task, texts)."""
    store = MemoryStore()
    play_round(Silo(assignment, store, store, logs.get("client")))
    shard = Shards(store, assignment).find(0)
    assert shard is not None
    return store, [(e.task, [turn.text for turn in e.turns]) for e in shard.episodes]


@pytest.mark.slow
def test_a_centre_is_shown_exactly_what_the_silos_are(assign: Assign) -> None:
    quick = {"exploration": {"tasksPerRound": 0}, "evaluation": {"tasks": 1}}
    _, pooled = shown(assign(**POOLED, **quick))
    apart = [
        (f"{part['name']}/{task}", texts)
        for part in PARTS
        for task, texts in shown(alone(assign, part, **quick))[1]
    ]
    assert pooled == apart


def test_a_part_may_have_its_own_number_of_demonstrations(assign: Assign) -> None:
    worlds = [{**PARTS[0], "demonstrations": 0}, PARTS[1]]
    own = assign(**{**POOLED, "options": {"worlds": worlds}}, demonstrations=2)
    assert [part.demonstrations_wanted for part in mixed_silo.split_parts(own)] == [0, 2]
    pooled = mixed_silo.split_parts(assign(**POOLED))
    assert [part.demonstrations_wanted for part in pooled] == [3, 3]
    for wrong in (-1, 1.5, "many", True):
        with pytest.raises(
            OptionError, match=r"options.worlds\[0\].demonstrations: got .*expected"
        ):
            make("mixed", {"worlds": [{**PARTS[0], "demonstrations": wrong}]})


@pytest.mark.parametrize("choose", [tasks.choose_training_jobs, tasks.choose_evaluation_jobs])
def test_it_plays_the_silos_tasks_with_their_seeds(
    assign: Assign, choose: mixed_silo.Choose
) -> None:
    pooled = mixed_silo.choose_jobs(assign(**POOLED), "train", choose)
    apart = [
        (f"{part['name']}/{job.task.id}", job.seed)
        for part in PARTS
        for job in mixed_silo.choose_jobs(alone(assign, part), "train", choose)
    ]
    assert [(job.task.id, job.seed) for job in pooled] == apart


def test_its_kinds_of_tasks_are_its_worlds(assign: Assign) -> None:
    assignment = assign(**POOLED)
    played = [
        job.task.id
        for job in mixed_silo.choose_jobs(assignment, "train", tasks.choose_training_jobs)
    ]
    kinds = figures.name_kinds(assignment)
    assert {task: kinds[task] for task in played} == {t: t.partition("/")[0] for t in played}


def test_its_evaluation_counts_each_worlds_tasks_apart(assign: Assign) -> None:
    assignment = assign(**POOLED, role="evaluate")
    store = MemoryStore()
    report = evaluate_only(Silo(assignment, store, store, logs.get("client")))
    document = store.objects[bucket_keys.evaluation_tasks("run", "centre", 0)]
    assert report.evaluation.episodes == 8
    assert document.count(b'"maze/') == 4 and document.count(b'"wordle/') == 4


@pytest.mark.parametrize(
    "worlds, sentence",
    [
        pytest.param(None, "options.worlds: expected a list", id="none"),
        pytest.param([], "options.worlds: expected a list", id="empty"),
        pytest.param([{"world": "maze"}], "options.worlds[0]: expected name and world", id="name"),
        pytest.param(
            [{"name": "a", "world": "maze"}, {"name": "a", "world": "maze"}],
            "options.worlds[1].name: got 'a' a second time",
            id="twice",
        ),
        pytest.param(
            [{"name": "a", "world": "mixed"}], "options.worlds[0].world: got 'mixed'", id="itself"
        ),
        pytest.param([{"name": "a/b", "world": "maze"}], "options.worlds[0].name", id="odd name"),
        pytest.param(
            [{"name": "a", "world": "maze", "options": 1}],
            "options.worlds[0].options: got 1, expected a mapping",
            id="options",
        ),
    ],
)
def test_wrong_parts_are_told_by_field(assign: Assign, worlds: Any, sentence: str) -> None:
    options = {} if worlds is None else {"worlds": worlds}
    with pytest.raises(OptionError) as found:
        make("mixed", options)
    assert sentence in str(found.value)
    with pytest.raises(PermanentError, match=r"spec\.environments\[centre\]\.options"):
        mixed_silo.split_parts(assign(**{**POOLED, "options": options}))
