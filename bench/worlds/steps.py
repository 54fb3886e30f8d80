"""Steps per second of each world on one core, and the memory of a thousand episodes at once.

    python bench/worlds/steps.py                  # all worlds, about a minute
    python bench/worlds/steps.py maze wordle      # only these

Actions are recorded first and then played again in a new process: choosing them is not counted, and
no cache has seen them. Time is the process's own CPU time: what else runs on the machine disturbs
it less than it would a clock.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "client_image")]

from hansa_worlds import World, make  # noqa: E402
from hansa_worlds.base import Task, parse_action, rng  # noqa: E402
from hansa_worlds.players import PLAYERS  # noqa: E402

MARKS = {"maze": 50_000, "wordle": 50_000, "textcraft": 50_000, "webshop": 2_000, "babyai": 1_500}
"""Steps per second that each world should reach."""
RESULTS = ROOT / "runs/worlds"
EPISODES = 500
PASSES = 3
TOGETHER = 1_000

Recorded = list[tuple[int, list[str]]]
"""Places of tasks in the train split, and what a player did in them."""


def record(name: str, options: dict[str, Any], player: str) -> Recorded:
    """Episodes spread over the train split, where exploration plays."""
    world = make(name, options)
    tasks = world.tasks("train")
    found: Recorded = []
    for number in range(EPISODES):
        place = number * len(tasks) // EPISODES
        draw, actions = rng("bench", player, number), []
        seen = world.start(tasks[place])
        while not seen.done:
            actions.append(parse_action(PLAYERS[player](world, draw)) or "")
            seen = world.step(actions[-1])
        found.append((place, actions))
    return found


def replay(name: str, options: dict[str, Any], recorded: Recorded) -> dict[str, float]:
    """CPU seconds of all starts and of all steps, in a process that has not played them before."""
    world = make(name, options)
    tasks = world.tasks("train")
    world.start(world.fresh(0))  # what all tasks share is there before the first
    starting = stepping = 0.0
    for place, actions in recorded:
        task = tasks[place]
        before = time.process_time()
        world.start(task)
        begun = time.process_time()
        for action in actions:
            world.step(action)
        stepping += time.process_time() - begun
        starting += begun - before
    return {"starting": starting, "stepping": stepping}


def measure(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Figures of one world: medians over several processes, so that no cache is warm."""
    found: dict[str, Any] = {}
    for player in ("legal", "expert"):
        recorded = record(name, options, player)
        steps = sum(len(actions) for _, actions in recorded)
        passes = [in_child("replay", name, options, recorded) for _ in range(PASSES)]
        starting = median(each["starting"] for each in passes)
        stepping = median(each["stepping"] for each in passes)
        found[player] = {
            "steps_per_second": round(steps / stepping),
            "with_starts_per_second": round(steps / (starting + stepping)),
            "start_microseconds": round(starting / EPISODES * 1e6, 1),
            "steps_per_episode": round(steps / EPISODES, 2),
        }
    found["memory"] = in_child("memory", name, options, [])
    return found


def in_child(what: str, name: str, options: dict[str, Any], recorded: Recorded) -> dict[str, float]:
    """Run a part of this file in a new process."""
    command = [sys.executable, __file__, name, "--options", json.dumps(options), "--child", what]
    output = subprocess.run(
        command, input=json.dumps(recorded), capture_output=True, text=True, check=True
    )
    figures: dict[str, float] = json.loads(output.stdout)
    return figures


def memory(name: str, options: dict[str, Any]) -> dict[str, float]:
    """MiB of what worlds of a kind share, and of a thousand of them in the middle of an episode."""
    before = resident()
    world = make(name, options)
    tasks = world.tasks("train")
    one = halfway(world, tasks[0], 0)
    gc.collect()
    shared = resident()
    played = [
        halfway(make(name, options), tasks[number * len(tasks) // TOGETHER], number)
        for number in range(TOGETHER)
    ]
    gc.collect()
    full = resident()
    assert len(played) == TOGETHER and one
    return {"first": round(shared - before, 1), "thousand": round(full - shared, 1)}


def halfway(world: World, task: Task, number: int) -> World:
    """A world some legal steps into an episode."""
    draw = rng("bench", "memory", number)
    seen = world.start(task)
    for _ in range(world.max_turns // 2):
        if seen.done:
            break
        seen = world.step(draw.choice(world.legal()))
    return world


def resident() -> float:
    """MiB that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


TITLES = (
    "world",
    "steps/s, legal play",
    "steps/s, expert play",
    "mark",
    "with starts, legal",
    "µs per start",
    "MiB, 1,000 episodes",
)


def show(found: dict[str, Any]) -> None:
    """The table of bench/README.md."""
    print(f"| {' | '.join(TITLES)} |\n|{'---|' * len(TITLES)}")
    for name, figures in found.items():
        legal, expert = figures["legal"], figures["expert"]
        cells = (
            f"{legal['steps_per_second']:,}",
            f"{expert['steps_per_second']:,}",
            f"{MARKS.get(name, 0):,}",
            f"{legal['with_starts_per_second']:,}",
            f"{legal['start_microseconds']:,}",
            f"{figures['memory']['thousand']:,}",
        )
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    """Measure, show, and keep the figures of a whole run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("worlds", nargs="*", help="default: all that have a mark")
    parser.add_argument("--options", default="{}", help="options of the worlds as JSON")
    parser.add_argument("--child", choices=("memory", "replay"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    options = json.loads(given.options)
    if given.child == "memory":
        print(json.dumps(memory(given.worlds[0], options)))
    elif given.child == "replay":
        print(json.dumps(replay(given.worlds[0], options, json.load(sys.stdin))))
    else:
        found = {name: measure(name, options) for name in given.worlds or MARKS}
        show(found)
        if not given.worlds and not options:
            keep(found)


def keep(found: dict[str, Any]) -> None:
    """Write the figures, with the machine they are of."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    about = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "load": [round(load, 1) for load in os.getloadavg()],
    }
    text = json.dumps({**about, "worlds": found}, indent=2) + "\n"
    (RESULTS / "steps.json").write_text(text)


if __name__ == "__main__":
    main()
