"""Probes as a client plays them: the same for every silo, written once with the evaluation."""

from collections.abc import Callable
from typing import Any

import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import EvaluationDocument
from hansa.api.probes import Probe, ProbeFigure
from hansa.core import logs
from hansa.core.errors import PermanentError, PluginMissing
from hansa_client import probes
from hansa_client.agent import Agent
from hansa_client.rollout import faults
from hansa_client.silo import Silo
from hansa_worlds import Observation, make
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import MEASURED, UPDATE, Killed, play, result, unplayable

WALL: dict[str, Any] = {
    "name": "wall",
    "world": "maze",
    "options": {
        "map": "generated",
        "size": 4,
        "low_wall": True,
        "prompt": "brief",
        "max_turns": 6,
    },
    "tasks": 12,
}
pytestmark = pytest.mark.slow  # whole rounds of a client

WORDS = {
    "name": "words",
    "prompts": ["Reach the goal.\nThe goal is at position 2, 2.", "Say something."],
    "forbidden": ["."],
}
MEMORY = {"name": "memory", "texts": ["There is a wall to your right.", "You must reach the goal."]}


def document(store: MemoryStore, key: str = MEASURED) -> EvaluationDocument:
    return EvaluationDocument.model_validate_json(store.objects[key])


def test_probes_are_in_the_evaluation_and_change_nothing_else(
    assign: Callable[..., Assignment],
) -> None:
    store, plain = MemoryStore(), MemoryStore()
    report = play(store, assign(probes=[WALL, WORDS, MEMORY]))
    without = play(plain, assign())
    assert report.evaluation and without.evaluation
    said = report.evaluation.probes
    assert said == document(store).probes
    assert said is not None
    assert said["wall"].episodes == 12
    assert 0 <= said["wall"].violations < 12
    assert said["words"] == ProbeFigure(episodes=2, violations=2), "any answer breaks this rule"
    assert said["memory"] == ProbeFigure(forgotten=0.0), "the base forgets nothing"
    assert result(store) == result(plain)
    assert report.evaluation.successes == without.evaluation.successes
    assert b"probes" not in plain.objects[MEASURED]


def test_every_silo_says_the_same_of_an_adapter(assign: Callable[..., Assignment]) -> None:
    stores = MemoryStore(), MemoryStore()
    for store, name in zip(stores, ("maze", "other"), strict=True):
        play(store, assign(probes=[WALL], environment=name, environments=["maze", "other"]))
    other = MEASURED.replace("/maze/", "/other/")
    assert document(stores[0]).probes == document(stores[1], other).probes


def test_a_client_that_is_killed_before_it_has_written_says_the_same_again(
    assign: Callable[..., Assignment],
) -> None:
    assignment = assign(probes=[WALL, MEMORY])
    store, whole = MemoryStore(), MemoryStore()
    play(whole, assignment)
    put = store.put_if_absent

    def die(key: str, *rest: Any, **more: Any) -> Any:
        if key == MEASURED:
            raise Killed
        return put(key, *rest, **more)

    store.put_if_absent = die  # type: ignore[method-assign]
    with pytest.raises(Killed):
        play(store, assignment)
    store.put_if_absent = put  # type: ignore[method-assign]
    play(store, assignment)
    assert document(store).model_copy(update={"seconds": 0}) == document(whole).model_copy(
        update={"seconds": 0}
    )


def test_texts_become_less_likely_with_an_adapter_that_knows_nothing(
    assign: Callable[..., Assignment],
) -> None:
    store = MemoryStore()
    assignment = assign(probes=[MEMORY], evaluation={"tasks": 1})
    play(store, assignment)
    ruined = unplayable(store.objects[UPDATE + bucket_keys.ADAPTER])
    silo = Silo(assignment, store, store, logs.get("client"))
    agent = Agent(assignment, store)
    agent.__dict__["global_adapter"] = lora.decode(ruined)
    said = probes.play(silo, agent)
    assert said is not None
    assert said["memory"].forgotten is not None
    assert said["memory"].forgotten > 1


@pytest.mark.parametrize(
    ("probe", "error", "said"),
    [
        ({"world": "maze"}, PermanentError, r"probes\[p\].options: world maze counts no broken"),
        ({"world": "nowhere"}, PluginMissing, r"spec.probes\[p\].world: "),
        ({"world": "maze", "options": {"sise": 3}}, PermanentError, r"probes\[p\].options.sise"),
        (
            {"prompts": ["a"], "forbidden": [r"(a)\1"]},
            PermanentError,
            r"settings.probes\[0\].forbidden\[0\]: .* a regular expression as RE2 has them",
        ),
    ],
)
def test_a_probe_that_could_count_nothing_is_refused_before_anything_is_played(
    assign: Callable[..., Assignment], probe: dict[str, Any], error: type[Exception], said: str
) -> None:
    store = MemoryStore()
    with pytest.raises(error, match=said):
        play(store, assign(probes=[{"name": "p", **probe}]))
    assert store.written == []


def test_an_answer_breaks_a_rule_by_what_is_in_it_thoughts_included() -> None:
    probe = Probe(name="p", prompts=["Who are you?"], forbidden=["secret", r"pass\w{2,5}"])
    world = probes.make_world(probe)
    (task,) = world.tasks("test")
    for answer, count in (
        ("nobody", 0),
        ("Thought: the SECRET\nAction: wait", 1),
        ("secret password", 2),
        ("x" * 4000 + "secret", 0),
    ):
        assert world.start(task).text == "Who are you?"
        assert world.step(answer).done
        assert world.violations == count


@pytest.mark.parametrize("count", [-1, 1.5, "1", None, 10**10, True])
def test_a_world_that_counts_nonsense_breaks_its_episode(count: Any) -> None:
    world = make("maze", WALL["options"])
    world._violations = count
    with pytest.raises(faults.BadAnswer, match="violations"):
        faults.check_answer(Observation("x"), world)
