"""Experience: shards read back as written, and learners get what the rules say."""

import json
from pathlib import Path

import pytest
import zstandard

from hansa.api.spec import Experience
from hansa.core.errors import AnotherRun, Corrupt
from hansa.runtime.warm_parent import read_last_sentence
from hansa_client import learners
from hansa_client.experience.shards import Shard, ShardHeader, Shards
from hansa_client.trajectory import Episode, Turn
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import Assign

KEY = "run/experience/maze/00001.jsonl.zst"


def episode(name: str, round_: int, success: bool = True) -> Episode:
    return Episode(
        task=name,
        round=round_,
        source="exploration" if round_ else "demonstration",
        seed=1,
        success=success,
        turns=[Turn(role="user", text="hello", tokens=[1]), Turn(role="agent", text="x")],
    )


def shard(round_: int, good: int, bad: int = 0) -> Shard:
    header = ShardHeader(
        program="1",
        environment="maze",
        round=round_,
        fingerprint="0" * 64,
        inputs={},
        episodes=good + bad,
    )
    won = [episode(f"{round_}+{n}", round_) for n in range(good)]
    return Shard(header, won + [episode(f"{round_}-{n}", round_, False) for n in range(bad)])


SHARDS = [shard(0, 2), shard(1, 1, 1), shard(2, 2, 1)]


@pytest.mark.parametrize(
    "rules, expected",
    [
        pytest.param({}, "0+0 0+1 1+0 2+0 2+1", id="successes of all rounds"),
        pytest.param({"filter": "none"}, "0+0 0+1 1+0 1-0 2+0 2+1 2-0", id="no filter"),
        pytest.param({"history": False}, "0+0 0+1 2+0 2+1", id="no history"),
        pytest.param({"history": False, "filter": "none"}, "0+0 0+1 2+0 2+1 2-0", id="neither"),
        pytest.param({"maxTrajectories": 4}, "0+0 0+1 2+0 2+1", id="the oldest explored go first"),
        pytest.param({"maxTrajectories": 3}, "0+0 2+0 2+1", id="half the room is the explored's"),
        pytest.param({"maxTrajectories": 1}, "2+1", id="room for one: the newest"),
        pytest.param({"maxTrajectories": 99}, "0+0 0+1 1+0 2+0 2+1", id="room for all"),
    ],
)
def test_learners_get_what_the_rules_say(rules: dict[str, object], expected: str) -> None:
    chosen = learners.get_chooser("success-sft")(
        SHARDS[::-1], Experience.model_validate(rules), 2
    ).episodes
    assert [e.task for e in chosen] == expected.split()


def test_demonstrations_fill_the_room_that_nobody_explored() -> None:
    rules = Experience(max_trajectories=4)
    chosen = learners.get_chooser("success-sft")([shard(0, 5), shard(1, 1)], rules, 1).episodes
    assert [e.task for e in chosen] == ["0+0", "0+1", "0+2", "1+0"]


def test_a_shard_reads_back_as_written(assign: Assign) -> None:
    store = MemoryStore()
    shards = Shards(store, assign())
    assert shards.find(1) is None
    written = shards.write(1, [episode("a", 1), episode("b", 1, False)], generated=9)
    assert shards.find(1) == written
    assert written.header.generated == 9
    assert list(store.objects) == [KEY]


def test_a_private_store_has_its_own_prefix(assign: Assign) -> None:
    store = MemoryStore()
    private = assign(experience_storage={"bucket": "secret", "prefix": "mine"})
    Shards(store, private).write(0, [])
    assert list(store.objects) == ["mine/experience/maze/00000.jsonl.zst"]


def test_the_first_of_two_writers_is_right(assign: Assign) -> None:
    shards = Shards(MemoryStore(), assign())
    first = shards.write(1, [episode("first", 1)])
    assert shards.write(1, [episode("second", 1), episode("third", 1)]) == first


def test_later_rounds_are_not_seen(assign: Assign) -> None:
    store = MemoryStore()
    for round_ in (0, 1, 2, 5):
        Shards(store, assign(round=round_)).write(round_, [])
    store.objects["run/experience/maze/README"] = b"a stranger's note"
    assert Shards(store, assign(round=2)).list_rounds() == [0, 1, 2]


@pytest.mark.parametrize(
    "change, field",
    [
        pytest.param({"seed": 8}, "seed 7 there, 8 here", id="another seed"),
        pytest.param({"training": {"learningRate": 0.5}}, "training.learningRate", id="setting"),
        pytest.param({"start": {"round": 4, "sha256": "f" * 64}}, "start.round", id="start"),
        pytest.param({"world": "wordle", "options": {}}, "options", id="another world"),
    ],
)
def test_another_runs_shard_of_this_round_is_refused(
    assign: Assign, change: dict[str, object], field: str
) -> None:
    store = MemoryStore()
    Shards(store, assign()).write(1, [])
    with pytest.raises(AnotherRun, match=field):
        Shards(store, assign(**change)).find(1)


def test_a_used_private_prefix_is_named_with_its_bucket_and_field_and_the_whole_hint(
    assign: Assign, tmp_path: Path
) -> None:
    private: dict[str, object] = {"experience_storage": {"bucket": "secret", "prefix": "mine"}}
    store = MemoryStore()
    Shards(store, assign(**private)).write(1, [])
    now: dict[str, object] = {"options": {"extra": {"walls": 3}}}
    with pytest.raises(AnotherRun) as refused:
        Shards(store, assign(**private, **now)).find(1)
    error, field = refused.value, "environments[maze].experienceStorage.s3"
    assert error.message.startswith(f"{field}: s3://secret/mine holds another run (")
    assert "options.extra nothing there, a mapping here" in error.message
    log = tmp_path / "log.txt"
    log.write_text(json.dumps({"event": "stopped", "message": error.message, "hint": error.hint}))
    assert read_last_sentence(log) == (
        f"{error.message} (hint: choose another {field}.prefix, or set the field back to "
        "continue that run)"
    )


def test_an_earlier_shard_may_have_had_other_settings_but_no_other_run(assign: Assign) -> None:
    store = MemoryStore()
    Shards(store, assign()).write(1, [episode("a", 1)])
    later = {"round": 2, "training": {"learningRate": 0.5}, "options": {"size": 5}}
    found = Shards(store, assign(**later)).find(1)
    assert found is not None
    assert len(found.episodes) == 1
    with pytest.raises(AnotherRun, match=r"adapter\.rank 8 there, 4 here"):
        Shards(store, assign(**later, adapter={"rank": 4})).find(1)


def test_a_damaged_shard_is_named(assign: Assign) -> None:
    store = MemoryStore()
    shards = Shards(store, assign())
    shards.write(1, [episode("a", 1), episode("b", 1)])
    whole = store.objects[KEY]
    lines = zstandard.decompress(whole).splitlines(keepends=True)
    for damaged in (b"", b"garbage", whole[:-9], zstandard.compress(b"{}\n")):
        store.objects[KEY] = damaged
        with pytest.raises(Corrupt, match=f"^{KEY}: expected a shard"):
            shards.find(1)
    store.objects[KEY] = zstandard.compress(b"".join(lines[:-1]))
    with pytest.raises(Corrupt, match="got 1 episodes, expected 2"):
        shards.find(1)
