"""A silo says what the others' updates are worth to it: by merges with and without each."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from hansa import adapter, contributions, keys, logs
from hansa.assignment import Assignment, EvaluateReport
from hansa.contributions import Subset, Subsets, TaskSums
from hansa.errors import AnotherRun, Corrupt
from hansa.manifest import FileEntry, GlobalManifest, StartAdapter, canonical, sha256
from hansa_client.contributions import values
from hansa_client.last import evaluate_only
from hansa_client.models import base_model
from hansa_client.rollout.tasks import make_world
from hansa_client.silo import Silo
from tests.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import Killed, unplayable

Assign = Callable[..., Assignment]
THREE = ["babyai", "maze", "wordle"]
MEASURED = {"tasks": 1, "validationTasks": 4, "temperature": 0, "contributions": {}}
SUMS = "run/experience/maze/contributions/00001.json"
TOLD = "run/evaluations/maze/00001.json"


class Exchange:
    """A store after round 1, whose merges a test has made up."""

    def __init__(self, start: adapter.Tensors) -> None:
        self.store = MemoryStore()
        self.start = adapter.encode(start)
        self.broken = unplayable(self.start)

    def commit(self, merges: list[tuple[list[str], bytes]], **told: Any) -> StartAdapter:
        """Round 1 as its aggregator leaves it; the adapter of all of them is the start itself."""
        objects = self.store.objects
        for number, (_, data) in enumerate(merges):
            objects[keys.subset("run", 1, number)] = data
        adapters = [Subset(members=m, sha256=sha256(d), size=len(d)) for m, d in merges]
        made = GlobalManifest(
            program="0",
            round=1,
            fingerprint="f" * 64,
            inputs={},
            base_model=base_model.digest(base_model.resolve("builtin:tiny")),
            start=StartAdapter(),
            files={keys.ADAPTER: FileEntry(sha256=sha256(self.start), size=len(self.start))},
            members=[],
            subsets=Subsets(adapters=adapters, **{"method": "leave-one-out", **told}),
        )
        folder = keys.global_folder("run", 1)
        objects[folder + keys.ADAPTER] = self.start
        objects[folder + keys.MANIFEST] = canonical(made.to_json())
        return StartAdapter(round=1, sha256=sha256(self.start))


@pytest.fixture
def exchange(start: adapter.Tensors) -> Exchange:
    """Without wordle nobody can play; without babyai nothing changes."""
    return Exchange(start)


@pytest.fixture
def told(exchange: Exchange, assign: Assign) -> Assignment:
    merges = [
        (["babyai", "maze"], exchange.broken),
        (["babyai", "wordle"], exchange.broken),
        (["maze", "wordle"], exchange.start),
    ]
    return asked(assign, exchange.commit(merges))


def asked(assign: Assign, begin: StartAdapter, **fields: Any) -> Assignment:
    given = {
        "role": "evaluate",
        "environments": THREE,
        "start": begin.to_json(),
        "round": begin.round,
        "exploration": {"maxNewTokens": 8},
    }
    return assign(**{"evaluation": MEASURED, **given, **fields})


def play(
    store: MemoryStore, given: Assignment, private: MemoryStore | None = None
) -> EvaluateReport:
    """Measure an adapter, as after the last round; a round's client does it by the same step."""
    return evaluate_only(Silo(given, store, private or store, logs.get("client")))


def votes(report: EvaluateReport) -> dict[str, int]:
    assert report.evaluation.contributions is not None
    return {THREE[index]: value for index, value, _, _ in report.evaluation.contributions}


def test_a_silo_without_which_nobody_can_play_is_worth_all_success(
    exchange: Exchange, told: Assignment
) -> None:
    report = play(exchange.store, told)
    assert report.evaluation.validation is not None
    success = report.evaluation.validation.ratio
    assert success, "or the test says nothing"
    assert votes(report) == {"babyai": 0, "wordle": round(success * 10000)}
    assert report.answers(told)


def test_the_silo_does_not_play_the_merge_without_itself(
    exchange: Exchange, told: Assignment
) -> None:
    play(exchange.store, told)
    read = [key for key in exchange.store.read if key.startswith(keys.subsets_root("run"))]
    assert read == [keys.subset("run", 1, number) for number in (0, 2)]


def test_which_tasks_an_adapter_can_do_stays_in_the_silo_and_no_test_task_is_played(
    exchange: Exchange, told: Assignment
) -> None:
    private = MemoryStore()
    play(exchange.store, told, private)
    document = TaskSums.model_validate_json(private.objects[SUMS])
    world = make_world(told)
    held_out = {split: {t.id for t in world.tasks(split)} for split in ("validation", "test")}
    named = {task for tasks in document.sums.values() for task in tasks}
    assert len(named) == 4 and named <= held_out["validation"] - held_out["test"]
    told_all = b"".join(v for k, v in exchange.store.objects.items() if k.endswith(".json"))
    assert not [task for task in named if json.dumps(task).encode() in told_all]
    shown = json.loads(exchange.store.objects[TOLD])["contributions"]
    assert set(shown) == {"babyai", "wordle"}


@pytest.mark.parametrize("key", [SUMS, TOLD])
def test_a_client_killed_before_it_says_so_says_the_same_afterwards(
    exchange: Exchange, told: Assignment, key: str
) -> None:
    store = exchange.store
    begun = dict(store.objects)
    report, said = play(store, told), {k: store.objects[k] for k in (SUMS, TOLD)}
    store.objects = begun

    def kill(written: str) -> None:
        if written == key:
            raise Killed

    store.before_put = kill
    with pytest.raises(Killed):
        play(store, told)
    store.before_put = lambda written: None
    assert votes(play(store, told)) == votes(report)
    document = {k: json.loads(store.objects[k]) for k in said}
    before = {k: json.loads(data) for k, data in said.items()}
    assert document[SUMS] == before[SUMS]
    assert document[TOLD]["contributions"] == before[TOLD]["contributions"]


def next_adapter(exchange: Exchange, assign: Assign) -> Assignment:
    """To measure the adapter of round 2, whose merges are those of round 1."""
    objects = exchange.store.objects
    for name in (keys.ADAPTER, keys.MANIFEST):
        objects[keys.global_folder("run", 2) + name] = objects[keys.global_folder("run", 1) + name]
    for number in range(3):
        objects[keys.subset("run", 2, number)] = objects[keys.subset("run", 1, number)]
    return asked(assign, StartAdapter(round=2, sha256=sha256(exchange.start)))


@pytest.mark.parametrize(
    "method, rounds",
    [
        pytest.param("leave-one-out", 2, id="averaged"),
        pytest.param("shapley", 1, id="another method's are not added to"),
    ],
)
def test_rounds_are_averaged_by_what_the_silo_has_stored(
    exchange: Exchange, told: Assignment, assign: Assign, method: str, rounds: int
) -> None:
    tasks = {t.id: (0.0, 1) for t in make_world(told).tasks("validation")}
    before = TaskSums(
        program="0",
        fingerprint="f" * 64,
        inputs=told.evaluation_inputs(),
        method=method,  # type: ignore[arg-type]
        sums={"wordle": tasks},
    )
    exchange.store.objects[SUMS] = canonical(before.to_json())
    report = play(exchange.store, next_adapter(exchange, assign))
    validation = report.evaluation.validation
    assert validation is not None and validation.ratio, "or the test says nothing"
    [wordle] = [vote for vote in report.evaluation.contributions or () if vote[0] == 2]
    document = TaskSums.model_validate_json(exchange.store.objects[SUMS.replace("00001", "00002")])
    played = [total for total, count in document.sums["wordle"].values() if count == rounds]
    assert (len(played), sum(played)) == (4, validation.successes)
    assert wordle[3] == rounds


def test_merges_that_are_gone_cost_no_round(exchange: Exchange, told: Assignment) -> None:
    del exchange.store.objects[keys.subset("run", 1, 2)]
    report = play(exchange.store, told)
    assert report.evaluation.contributions is None


def test_a_merge_with_other_bytes_than_named_is_refused(
    exchange: Exchange, told: Assignment
) -> None:
    key = keys.subset("run", 1, 0)
    exchange.store.objects[key] = exchange.start[:-1] + b"x"
    with pytest.raises(Corrupt, match=r"000\.safetensors: got other bytes"):
        play(exchange.store, told)
    exchange.store.objects[key] = b"short"
    with pytest.raises(Corrupt, match=r"000\.safetensors: expected \d+ bytes"):
        play(exchange.store, told)


def test_a_manifest_of_another_adapter_is_refused(exchange: Exchange, told: Assignment) -> None:
    key = keys.global_folder("run", 1) + keys.MANIFEST
    made = json.loads(exchange.store.objects[key])
    made["files"][keys.ADAPTER]["sha256"] = "0" * 64
    exchange.store.objects[key] = canonical(made)
    with pytest.raises(Corrupt, match="got another adapter's"):
        play(exchange.store, told)


def test_sums_of_another_run_and_garbage_are_refused(exchange: Exchange, told: Assignment) -> None:
    play(exchange.store, told)
    good = json.loads(exchange.store.objects[SUMS])
    del exchange.store.objects[TOLD]
    exchange.store.objects[SUMS] = canonical({**good, "inputs": {**good["inputs"], "seed": 8}})
    with pytest.raises(AnotherRun, match="seed 8 there, 7 here"):
        play(exchange.store, told)
    exchange.store.objects[SUMS] = b"{}"
    with pytest.raises(Corrupt, match="expected what updates are worth"):
        play(exchange.store, told)


@pytest.mark.parametrize(
    "evaluation, fields",
    [
        pytest.param({**MEASURED, "contributions": None}, {}, id="nobody asks"),
        pytest.param(MEASURED, {"start": {}, "round": 0}, id="the base is no merge"),
    ],
)
def test_what_is_not_asked_for_is_not_played(
    exchange: Exchange, told: Assignment, assign: Assign, evaluation: Any, fields: Any
) -> None:
    report = play(exchange.store, asked(assign, told.start, evaluation=evaluation, **fields))
    assert report.evaluation.contributions is None
    assert not [key for key in exchange.store.read if "subsets" in key]


def test_of_many_silos_the_values_sum_to_what_the_round_gained(
    exchange: Exchange, assign: Assign
) -> None:
    """By two orders; the adapter before the round is played, too."""
    orders = [THREE, THREE[::-1]]
    sets = contributions.subsets(THREE, orders)
    merges = [(each, exchange.broken if "wordle" in each else exchange.start) for each in sets]
    begin = exchange.commit(merges, method="shapley", orders=orders)
    report = play(exchange.store, asked(assign, begin))
    assert report.evaluation.validation is not None
    success = round((report.evaluation.validation.ratio or 0) * 10000)
    assert success, "or the test says nothing"
    found = votes(report)
    # Of both orders wordle comes last with all of it, or first with nothing.
    assert found == {"babyai": success // 2, "wordle": success // 2 - success + 0}


def test_values_are_of_tasks_that_every_merge_has_played() -> None:
    sets = contributions.subsets(THREE, [])
    subsets = Subsets(
        method="leave-one-out",
        adapters=[Subset(members=each, sha256="a" * 64, size=1) for each in sets],
    )
    rates = {
        frozenset(THREE): {"t1": 1.0, "t2": 0.5, "t3": 1.0},
        frozenset({"babyai", "maze"}): {"t1": 0.0, "t2": 1.0},
        frozenset({"maze", "wordle"}): {"t1": 1.0, "t2": 0.0, "t3": 0.0},
    }
    assert values(subsets, rates, "maze") == {
        "t1": {"babyai": 0.0, "wordle": 1.0},
        "t2": {"babyai": 0.5, "wordle": -0.5},
    }
