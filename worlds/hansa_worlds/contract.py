"""The contract of worlds, as checks that run over any world, one of a package too.

    from hansa_worlds.contract import CHECKS

    @pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
    def test_my_world_keeps_the_contract(check):
        check(lambda: MyWorld({}))

A check raises WorldContractError with the task and the action that show the fault.
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from hansa.api.task_kinds import MOST_NAMES
from hansa_worlds.base import SPLITS, Observation, Task, World, parse_action
from hansa_worlds.errors import NoPlayer, WorldError

Make = Callable[[], World]

EPISODES = 12
"""Tasks per check: enough to find most faults, few enough to run often."""
LEAST_SOLVED = 0.95
"""Share of the tasks that the expert must solve: its episodes become demonstrations."""

MOST_CALLS = 50_000
"""Most calls of one step; a round of a large federation plays a million steps."""

LONGEST_KIND = 100
"""Characters of a kind's name."""

HOSTILE = (
    "",
    " ",
    "\n\n\n",
    "\x00",
    "\ud800 lone surrogate",
    "Action:",
    "Action: \nAction: ",
    "Action: a\nAction: b",
    "Thought: none\nAction: nothing of this world",
    "get 99999999999999999999 oak log",
    "get ٣ oak log",  # digits, but not ASCII ones
    "craft 1 using 1 a, , 2",
    "craft -1 stick using 2 oak planks",
    "search[" + "(" * 5_000,
    "click[[]]",
    "go to  ball",
    "pickup red ball 9",
    "drop",
    "a" * 1_000_000,
    "ß" * 5,
    "İİİİİ",  # grows when lowered
    "🙂" * 300,
    "{__class__}%s%n$(id)`id`",
)


class WorldContractError(WorldError):
    """A world breaks the contract of hansa_worlds.World."""


def _require(kept: bool, sentence: str) -> None:
    if not kept:
        raise WorldContractError(sentence)


def _sample(world: World) -> list[Task]:
    """Tasks spread over every split."""
    chosen = []
    for split in SPLITS:
        tasks = world.tasks(split)
        count = min(len(tasks), EPISODES)
        chosen += [tasks[index * len(tasks) // count] for index in range(count)]
    return chosen


def _play(world: World, task: Task, choose: Callable[[World], str]) -> Iterator[Observation]:
    seen = world.start(task)
    yield seen
    while not seen.done:
        seen = world.step(choose(world))
        yield seen


def _make_random_player(task: Task) -> Callable[[World], str]:
    """A player that chooses legal actions, or words without meaning where none are listed."""
    draw = random.Random(task.id)

    def choose(world: World) -> str:
        try:
            return draw.choice(world.legal())
        except NoPlayer:
            return draw.choice(["look", "help", "wait"])

    return choose


def _choose_expertly(world: World) -> str:
    """The expert's action; without an expert, always the same one."""
    try:
        return world.expert().action
    except NoPlayer:
        return "look"


def _has_player(world: World, player: Literal["expert", "legal"]) -> bool:
    """Whether the world has such a player, tried during an episode."""
    world.start(world.tasks("train")[0])
    try:
        getattr(world, player)()
    except NoPlayer:
        return False
    return True


def splits_are_disjoint(make: Make) -> None:
    """No task, by id or by what it sets up, is in two splits or twice in one."""
    world = make()
    ids: set[str] = set()
    payloads: set[tuple[str, ...]] = set()
    for split in SPLITS:
        tasks = world.tasks(split)
        _require(len(tasks) > 0, f"split {split} is empty")
        for task in tasks:
            _require(task.split == split, f"{task.id} of split {split} says {task.split}")
            _require(task.id not in ids, f"{task.id} is there twice")
            _require(task.payload not in payloads, f"{task.id} repeats another task's payload")
            ids.add(task.id)
            payloads.add(task.payload)


def tasks_are_stable(make: Make) -> None:
    """Two worlds with equal options list equal tasks, in the same order, by index and slice."""
    one, other = make(), make()
    for split in SPLITS:
        tasks = one.tasks(split)
        _require(list(tasks) == list(other.tasks(split)), f"the tasks of {split} change")
        _require(tasks[-1] == list(tasks)[-1], f"tasks('{split}')[-1] is not the last")
        _require(list(tasks[:3]) == list(tasks)[:3], f"tasks('{split}')[:3] are not the first")


def fresh_tasks_are_never_held_out_ones(make: Make) -> None:
    """Pre-training tasks repeat for a seed, and none is a validation or test task."""
    world = make()
    held = {task.payload for split in SPLITS[1:] for task in world.tasks(split)}
    for seed in range(200):
        task = world.fresh(seed)
        _require(task == world.fresh(seed), f"fresh({seed}) changes")
        _require(task.payload not in held, f"fresh({seed}) is held out: {task.id}")


def kinds_of_tasks_are_few(make: Make) -> None:
    """All tasks have a kind or none has; one short line, the same in another world at any time."""
    one, other = make(), make()
    found: set[str] = set()
    for task in _sample(one):
        kind = one.group(task)
        _require(len(kind) <= LONGEST_KIND and kind.isprintable(), f"{task.id}: kind {kind!r}")
        other.start(task)
        _require(other.group(task) == kind, f"{task.id}: its kind changes from {kind!r}")
        found.add(kind)
    _require("" not in found or len(found) == 1, f"only some tasks have a kind: {sorted(found)}")
    names, tasks = one.groups(), len(one.tasks("train"))
    _require(names == other.groups() == sorted(set(names)), f"kinds are in no order: {names[:9]}")
    most = min(MOST_NAMES, max(1, tasks // 2))
    _require(len(names) <= most, f"got {len(names)} kinds of tasks, expected at most {most}")


def episodes_are_deterministic(make: Make) -> None:
    """The same task and actions give the same observations in two worlds."""
    one, other = make(), make()
    for task in _sample(one):
        first = list(_play(one, task, _make_random_player(task)))
        _require(first == list(_play(other, task, _make_random_player(task))), f"{task.id} differs")


def start_forgets_the_episode_before(make: Make) -> None:
    """A world plays like a new one after an episode, complete or interrupted."""
    used = make()
    for task in _sample(used):
        list(_play(used, task, _make_random_player(task)))
        used.start(task)
        used.step("Action: broken off")
        _require(not used.success, f"{task.id}: success before the end")
        again = list(_play(used, task, _choose_expertly))
        _require(
            again == list(_play(make(), task, _choose_expertly)),
            f"{task.id}: something is left over",
        )


def expert_solves_its_tasks(make: Make) -> None:
    """The expert succeeds within the turns; skipped for a world without one."""
    world = make()
    if not _has_player(world, "expert"):
        return
    failed = []
    tasks = [task for task in _sample(world) if world.solvable(task)]
    _require(bool(tasks), "no task is solvable")
    for task in tasks:
        list(_play(world, task, _choose_expertly))
        if not world.success:
            failed.append(task.id)
    solved = 1 - len(failed) / len(tasks)
    _require(solved >= LEAST_SOLVED, f"the expert solves {solved:.0%}; not {failed[:3]}")


def episodes_end(make: Make) -> None:
    """An episode ends after max_turns at the latest, and then stays as it is."""
    world = make()
    for task in _sample(world):
        steps = list(_play(world, task, _make_random_player(task)))[1:]
        _require(1 <= len(steps) <= world.max_turns, f"{task.id}: {len(steps)} turns")
        before = world.success
        after = world.step(HOSTILE[0])
        _require(after.done and after.reward == 0, f"{task.id}: an ended episode continues")
        _require(world.success is before, f"{task.id}: success changes after the end")


def legal_is_never_empty(make: Make) -> None:
    """Until the end there are legal actions, distinct, on one line; listing changes nothing."""
    world = make()
    if not _has_player(world, "legal"):
        return
    for task in _sample(world):
        for seen in _play(world, task, _make_random_player(task)):
            if seen.done:
                break
            moves = world.legal()
            _require(bool(moves) and len(set(moves)) == len(moves), f"{task.id}: legal {moves}")
            _require(all("\n" not in move for move in moves), f"{task.id}: legal {moves}")
            _choose_expertly(world)
            _require(moves == world.legal(), f"{task.id}: expert() changes the state")


def hostile_text_is_only_a_wasted_turn(make: Make) -> None:
    """Whatever the agent writes, step answers with text and the episode can end."""
    world = make()
    tasks = _sample(world)
    for index, text in enumerate(HOSTILE):
        seen = world.start(tasks[index % len(tasks)])
        while not seen.done:
            seen = world.step(text)
            _require(isinstance(seen.text, str), f"{text[:40]!r} gives no text")
            _require(len(seen.text) < 20_000, f"{text[:40]!r} is echoed at length")
        _require(not world.success, f"{text[:40]!r} solves {tasks[index % len(tasks)].id}")


def an_action_may_follow_a_thought(make: Make) -> None:
    """`Thought: ... Action: x` is x, as AgentGym's agents write it."""
    plain, thoughtful = make(), make()

    def think(world: World) -> str:
        return f"Thought: well.\n\nAction:   {_choose_expertly(world)} \nok"

    for task in _sample(plain):
        same = list(_play(plain, task, _choose_expertly)) == list(_play(thoughtful, task, think))
        _require(same, f"{task.id}: a thought changes the play")


def experts_think_before_they_act(make: Make) -> None:
    """An expert's turn is a thought and one action, and reads as `step` takes it."""
    world = make()
    if not _has_player(world, "expert"):
        return
    for task in _sample(world):
        seen = world.start(task)
        while not seen.done:
            move = world.expert()
            said = f"{task.id}: expert says {move!r}"
            _require(bool(move.thought) and "\n" not in move.thought + move.action, said)
            _require("Action:" not in move.thought + move.action, said)
            _require(parse_action(move.text) == move.action, said)
            seen = world.step(move.text)


def broken_rules_are_counted(make: Make) -> None:
    """The count starts at 0 and never falls; it rises only with rules, and not by the expert."""
    world = make()
    for task in _sample(world):
        for choose in (_make_random_player(task), _choose_expertly):
            counts = [world.violations for _ in _play(world, task, choose)]
            _require(counts[0] == 0, f"{task.id}: a rule is broken before the first action")
            _require(counts == sorted(counts), f"{task.id}: broken rules are forgotten")
            keeps = choose is _choose_expertly or not world.has_rules
            _require(not keeps or not counts[-1], f"{task.id}: the expert breaks a rule")


def steps_are_cheap(make: Make) -> None:
    """A step makes few calls; these are counted, since times differ from run to run."""
    world = make()
    if world.waits:
        return
    for task in _sample(world):
        choose = _make_random_player(task)
        seen = world.start(task)
        while not seen.done:
            action = choose(world)
            seen, calls = _count_calls(world, action)
            _require(calls <= MOST_CALLS, f"{task.id}: {action!r} makes {calls} calls")


def _count_calls(world: World, action: str) -> tuple[Observation, int]:
    """A step, and how many calls it makes."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return world.step(action), calls
    finally:
        sys.setprofile(before)


CHECKS: dict[str, Callable[[Make], None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        splits_are_disjoint,
        tasks_are_stable,
        fresh_tasks_are_never_held_out_ones,
        kinds_of_tasks_are_few,
        episodes_are_deterministic,
        start_forgets_the_episode_before,
        expert_solves_its_tasks,
        episodes_end,
        legal_is_never_empty,
        hostile_text_is_only_a_wasted_turn,
        an_action_may_follow_a_thought,
        experts_think_before_they_act,
        broken_rules_are_counted,
        steps_are_cheap,
    )
}


def prepare(name: str, options: Mapping[str, object] | None) -> Make:
    """What the checks take, from a name and options; raises where there is no such world."""
    from hansa_worlds.registry import make

    make(name, options)
    return lambda: make(name, options)
