"""Worlds that fail: their episodes are dropped and counted, and nothing they said gets out."""

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hansa.api.assignment import Assignment, ClientReport
from hansa.core import logs
from hansa.core.errors import PermanentError, WorldBroken
from hansa.core.exits import Exit
from hansa_client.models.base_model import Base
from hansa_client.rollout import episodes, tasks
from hansa_client.rollout.episodes import EpisodeJob, RolloutConfig
from hansa_client.rollout.faults import FaultTally, describe_fault
from hansa_client.rollout.live_episodes import LiveEpisode, WorldPool
from hansa_client.round import check_world, play_round
from hansa_client.silo import Silo
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.oddworlds import DOWN, SECRET, Odd, Waiting, offered
from tests.unit.hansa_client.rounds import Assign

HOW = RolloutConfig(
    temperature=1.0,
    max_length=512,
    batch_episodes=4,
    round=1,
    source="exploration",
    max_new_tokens=4,
    max_broken=1.0,
)
FAILS = [1, 3, 6]


@pytest.fixture(autouse=True)
def worlds() -> Iterator[None]:
    with offered():
        yield


def jobs(count: int = 8) -> list[EpisodeJob]:
    return [EpisodeJob(task, 0, seed) for seed, task in enumerate(Odd({}).tasks("train")[:count])]


def play(
    base: Base, rules: RolloutConfig = HOW, kind: type[Odd] = Odd, **options: Any
) -> episodes.Played:
    return episodes.play(base, lambda: kind(options), jobs(), rules)


@pytest.mark.parametrize("when", ["start", "step"])
def test_broken_episodes_are_dropped_and_the_others_are_as_without_them(
    base: Base, when: str
) -> None:
    whole = play(base).episodes
    progress: list[tuple[int, int]] = []
    played = episodes.play(
        base,
        lambda: Odd({"fails": FAILS, "when": when}),
        jobs(),
        HOW,
        lambda done, successes: progress.append((done, successes)),
    )
    assert played.episodes == [whole[n] for n in range(8) if n not in FAILS]
    assert len(played.broken) == len(FAILS)
    assert progress[-1] == (8, 5)


@pytest.mark.parametrize(
    "how, sentence",
    [
        pytest.param("raise", r"KeyError at tests/unit/hansa_client/oddworlds.py:\d+", id="raise"),
        pytest.param(
            "library", r"ValueError at tests/unit/hansa_client/oddworlds.py:\d+", id="library"
        ),
        pytest.param("exit", r"SystemExit at .*oddworlds.py:\d+", id="it ends the program"),
        pytest.param("down", rf"WorldDown at .*oddworlds.py:\d+ \({DOWN}\)", id="server is down"),
        pytest.param("nothing", r"AttributeError at hansa_worlds/base.py:\d+", id="None"),
        pytest.param("no text", r"BadAnswer at .*Odd \(its answer is no Observation", id="no text"),
        pytest.param("surrogate", r"BadAnswer at .*Odd \(its text is not valid", id="surrogate"),
        pytest.param("reward", r"BadAnswer at .*Odd \(its reward is no finite", id="reward"),
        pytest.param("words", r"BadAnswer at .*Odd \(its reward is no finite", id="words"),
    ],
)
def test_a_fault_is_told_by_type_file_and_line_and_says_nothing(
    base: Base, how: str, sentence: str
) -> None:
    found = play(base, fails=[2], how=how).broken
    assert len(found) == 1
    assert re.fullmatch(f"{sentence}.*", str(found[0])), str(found[0])
    assert SECRET not in str(found[0])


def test_a_fault_without_a_traceback_has_a_place_as_well() -> None:
    assert (
        str(describe_fault(KeyError(SECRET), Odd({})))
        == "KeyError at tests.unit.hansa_client.oddworlds.Odd"
    )


def test_an_empty_machine_is_not_the_worlds_fault(base: Base) -> None:
    with pytest.raises(MemoryError):
        play(base, fails=[0], how="memory")


@pytest.mark.parametrize(
    "share, broken, is_too_many",
    [
        pytest.param(0.0, 1, True, id="none may break"),
        pytest.param(0.3, 3, False, id="as many as may"),
        pytest.param(0.3, 4, True, id="one more"),
        pytest.param(1.0, 10, False, id="all may"),
    ],
)
def test_too_many_broken_episodes_are_more_than_the_share(
    share: float, broken: int, is_too_many: bool
) -> None:
    tally = FaultTally(10, share)
    fault = describe_fault(KeyError(SECRET), Odd({}))
    for _ in range(broken - 1):
        tally.add(Odd({}), fault)
    if is_too_many:
        with pytest.raises(WorldBroken, match=f"^world odd failed in {broken} of 10 episodes"):
            tally.add(Odd({}), fault)
    else:
        tally.add(Odd({}), fault)


def test_the_first_broken_episode_too_many_ends_all_and_every_world_is_closed(base: Base) -> None:
    with pytest.raises(WorldBroken, match="failed in 2 of 8 episodes") as caught:
        play(base, replace(HOW, max_broken=0.2), fails=[0, 1, 2, 3])
    assert caught.value.exit is Exit.WORLD_BROKEN
    assert caught.value.__context__ is None  # a traceback would quote what the world raised
    assert sorted(Odd.closed) == ["odd-0", "odd-1", "odd-2", "odd-3"]


def test_every_world_is_closed_once(base: Base) -> None:
    play(base, fails=FAILS)
    assert sorted(Odd.closed) == [f"odd-{n}" for n in range(8)]


def test_worlds_that_wait_take_their_steps_side_by_side_in_order(base: Base) -> None:
    Waiting.barrier = threading.Barrier(4)
    waited = play(base, kind=Waiting)
    assert waited.episodes == play(base).episodes


def test_a_broken_world_that_waits_holds_nobody_up(base: Base) -> None:
    Waiting.barrier = threading.Barrier(4)
    Waiting.barrier.abort()  # every step raises
    assert len(play(base, kind=Waiting).broken) == 8


def test_worlds_are_closed_when_the_model_fails() -> None:
    with pytest.raises(RuntimeError), WorldPool(lambda: Odd({}), HOW, 2) as worlds:
        worlds.run_each(LiveEpisode.start, [worlds.make(job) for job in jobs(2)])
        raise RuntimeError
    assert Odd.closed == ["odd-0", "odd-1"]


# -- a round --------------------------------------------------------------------------------------


def odd(assign: Assign, world: str = "odd", **fields: Any) -> Assignment:
    given: dict[str, Any] = {
        "world": world,
        "options": {"fails": [0, 1]},
        "exploration": {"tasksPerRound": 20, "maxNewTokens": 4},
        "experience": {"demonstrations": 0},
        "evaluation": {"tasks": 50},
    }
    return assign(**{**given, **fields})


def silo(assignment: Assignment, store: MemoryStore) -> Silo:
    return Silo(assignment, store, store, logs.get("client"))


def play_silo(assignment: Assignment, store: MemoryStore) -> ClientReport:
    return play_round(silo(assignment, store))


def test_a_round_goes_on_and_counts_what_it_dropped(
    assign: Assign, capsys: pytest.CaptureFixture[str]
) -> None:
    lenient = {"tasksPerRound": 20, "maxNewTokens": 4, "maxBrokenEpisodes": 0.25}
    report = play_silo(odd(assign, exploration=lenient), MemoryStore())
    assert (report.counts.explored, report.counts.broken) == (18, 2)
    assert report.evaluation
    assert (report.evaluation.episodes, report.evaluation.broken) == (6, 2)
    assert report.trained
    said = capsys.readouterr().err
    assert 'episodes_dropped phase=explore broken=2 faults="2 times KeyError at tests/' in said
    assert SECRET not in said


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="raises errors that quote the episode",
    result="the Job fails by exception, file and line, without the quote",
)
def test_too_many_fail_the_job_without_a_word_of_the_episode(
    assign: Assign, capsys: pytest.CaptureFixture[str]
) -> None:
    store = MemoryStore()
    with pytest.raises(WorldBroken, match=r"^world odd failed in 1 of 8 episodes.*KeyError at tes"):
        play_silo(odd(assign), store)
    assert store.objects == {}
    assert SECRET not in capsys.readouterr().err


def test_a_broken_episode_is_counted_again_by_an_attempt_that_finds_the_shard(
    assign: Assign,
) -> None:
    lenient = {"tasksPerRound": 20, "maxNewTokens": 4, "maxBrokenEpisodes": 0.5}
    assignment, store = odd(assign, exploration=lenient), MemoryStore()
    first = play_silo(assignment, store)
    del store.objects["run/updates/maze/00001/manifest.json"]
    assert play_silo(assignment, store).counts == first.counts


@pytest.mark.parametrize(
    "fields, message",
    [
        pytest.param(
            {"options": {"test": 0}},
            r"spec.environments\[maze\].options: world odd has no task in its split test with",
            id="nothing to evaluate on",
        ),
        pytest.param(
            {"options": {"train": 0}},
            r"spec.environments\[maze\].options: world odd has no task in its split train with",
            id="nothing to explore",
        ),
        pytest.param(
            {"experience": {"demonstrations": 5}},
            r"spec.experience.demonstrations: got 5, but world odd of environment maze has no exp",
            id="nobody to demonstrate",
        ),
        pytest.param(
            {"demonstrations": 2},
            r"spec.environments\[maze\].demonstrations: got 2, but world odd of environment maze",
            id="nobody to demonstrate the environment's own number",
        ),
        pytest.param(
            {
                "world": "odd-expert",
                "options": {"train": 0},
                "exploration": {"tasksPerRound": 0},
                "experience": {"demonstrations": 5},
            },
            "spec.environments.*no task in its split train",
            id="nothing to demonstrate",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_loaded(
    assign: Assign, fields: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: Any) -> Any:
        raise AssertionError("the model is being loaded")

    monkeypatch.setattr("hansa_client.silo.Agent", never)
    with pytest.raises(PermanentError, match=f"^{message}"):
        play_silo(odd(assign, **fields), MemoryStore())


@pytest.mark.parametrize("world, shown", [("odd", 0), ("odd-expert", 20)])
def test_an_option_that_shows_itself_wrong_only_in_an_episode_is_the_manifests_fault(
    assign: Assign, world: str, shown: int
) -> None:
    options = {"fails": [0], "how": "option"}
    assignment = odd(
        assign, world, options=options, experience={"demonstrations": shown}, evaluate=False
    )
    message = r"^spec.environments\[maze\].options.sessions: got 1, expected 2"
    with pytest.raises(PermanentError, match=message):
        play_silo(assignment, MemoryStore())


def test_splits_that_nobody_plays_may_be_empty(assign: Assign) -> None:
    assignment = odd(assign, options={"test": 0}, evaluate=False, exploration={"tasksPerRound": 1})
    check_world(silo(assignment, MemoryStore()))
    assignment = odd(assign, options={"train": 0}, exploration={"tasksPerRound": 0})
    check_world(silo(assignment, MemoryStore()))
    check_world(silo(odd(assign, role="evaluate", options={"train": 0}), MemoryStore()))


def test_a_world_that_is_down_may_be_tried_again(
    assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*args: Any) -> Any:
        from hansa_worlds import WorldDown

        raise WorldDown(DOWN)

    monkeypatch.setattr(tasks, "make", down)
    with pytest.raises(WorldBroken, match=rf"^spec.environments\[maze\].world: {DOWN}"):
        tasks.make_world(assign())
