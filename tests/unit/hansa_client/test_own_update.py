"""What is measured beside the round: the silo's own update, and tasks that choices are made by."""

import itertools
import json
from collections.abc import Callable

import pytest

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import TaskTallies
from hansa.core import logs
from hansa.runtime import program
from hansa_client.rollout.tasks import make_world
from hansa_client.round import play_round
from hansa_client.silo import Silo
from hansa_worlds.base import SPLITS
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import BY_TASK, UPDATE, play, result

pytestmark = pytest.mark.slow  # whole rounds of a client


def test_a_client_measures_its_own_update_and_other_tasks_for_whoever_chooses(
    assign: Callable[..., Assignment],
) -> None:
    asked = assign(evaluation={"tasks": 4, "ownUpdate": True, "validationTasks": 3})
    store, plain = MemoryStore(), MemoryStore()
    report = play(store, asked)
    play(plain, assign())
    own = "run/evaluations/maze/00001-own.json"
    by_task = "run/experience/maze/evaluations/00001-own.json"
    assert store.written[-3:] == [UPDATE + bucket_keys.MANIFEST, by_task, own]
    assert report.own is not None
    assert report.own.episodes == 4
    assert report.evaluation is not None
    assert report.evaluation.validation is not None
    assert report.evaluation.validation.episodes == 3
    assert result(store) == result(plain)
    del store.objects[own]  # killed after the commit
    assert play(store, asked) == report
    assert play(store, asked) == report  # found, and not played a third time
    assert store.written.count(own) == 2


def test_the_own_update_is_played_in_a_phase_of_its_own(
    assign: Callable[..., Assignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(program, "progress", lambda **phases: said.append(phases["phase"]))
    play(MemoryStore(), assign(evaluation={"tasks": 4, "ownUpdate": True}))
    order = [phase for phase, _ in itertools.groupby(said)]
    assert (order.count("evaluate"), order[-1]) == (1, "own")


def test_tasks_are_played_greedily_too_once_each_and_the_sampled_ones_stay_the_same(
    assign: Callable[..., Assignment],
) -> None:
    sampled = {"tasks": 3, "samplesPerTask": 2}
    plain, both = (
        evaluated(assign(evaluation={**sampled, "greedy": greedy})) for greedy in (False, True)
    )
    alone = evaluated(assign(evaluation={"tasks": 3, "temperature": 0}))
    assert (plain.tasks, plain.greedy) == (both.tasks, {})
    assert sum(played for _, played in both.tasks.values()) == 6
    assert both.greedy == alone.tasks, "as by a temperature of 0, though it is 1"
    assert sum(played for _, played in both.greedy.values()) == 3


def evaluated(assignment: Assignment) -> TaskTallies:
    store = MemoryStore()
    play(store, assignment)
    return TaskTallies.model_validate_json(store.objects[BY_TASK])


def test_nobody_else_learns_which_held_out_tasks_an_adapter_can_do(
    assign: Callable[..., Assignment],
) -> None:
    given = {"tasks": 4, "ownUpdate": True, "greedy": True, "validationTasks": 3}
    assignment = assign(evaluation=given)
    exchange, private = MemoryStore(), MemoryStore()
    play_round(Silo(assignment, exchange, private, logs.get("client")))
    held_out = [task.id for split in SPLITS[1:] for task in make_world(assignment).tasks(split)]
    shown = [data for key, data in exchange.objects.items() if key.endswith(".json")]
    assert len(shown) == 4  # the update's manifest and config, two evaluations
    named = [task for task in held_out for data in shown if json.dumps(task).encode() in data]
    assert named == []
    own = [json.loads(data) for key, data in private.objects.items() if key.endswith(".json")]
    assert [len(document["tasks"]) for document in own] == [4, 4]
