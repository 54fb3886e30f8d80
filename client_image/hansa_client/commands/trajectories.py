"""`hansa trajectories`: browse the episodes that the silos of a run have kept."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from hansa.api import bucket_keys
from hansa.cli.common import Format, Output, console, print_data, say
from hansa.cli.target import Run, StoreAccess
from hansa.core.errors import Corrupt, Denied, InputError
from hansa.core.sanitize import sanitize
from hansa_client.commands import common
from hansa_client.commands.show import EpisodeScreen, format_reward
from hansa_client.commands.silos import StoredSilo, open_silos
from hansa_client.experience import agentgym_format, shards
from hansa_client.trajectory import Episode

TITLES = ("K", "ENVIRONMENT", "ROUND", "TASK", "SOURCE", "END", "REWARD", "TURNS")


@dataclass(frozen=True, kw_only=True)
class EpisodeFilter:
    """Which episodes are meant."""

    round: int | None = None
    """Round that played them; None: all of them."""
    success: bool | None = None
    """Only successful or only failed ones; None: both."""
    task: str | None = None
    """Id of the task, or a pattern as maze-*."""

    def is_match(self, episode: Episode) -> bool:
        """Whether an episode is one of them."""
        if self.success is not None and episode.success is not self.success:
            return False
        return self.task in (None, episode.task) or fnmatchcase(episode.task, self.task or "")


@dataclass(frozen=True)
class Match:
    """One episode, and whose it is."""

    silo: StoredSilo
    episode: Episode

    def summarize(self) -> dict[str, Any]:
        """What a list says about it."""
        said = self.episode
        return {
            "environment": self.silo.name,
            "round": said.round,
            "task": said.task,
            "sample": said.sample,
            "source": said.source,
            "success": said.success,
            "reward": said.reward,
            "turns": sum(turn.role == "agent" for turn in said.turns),
        }


def trajectories(
    run: Run,
    access: StoreAccess,
    environment: Annotated[
        str | None, typer.Option("-e", "--environment", help="Only of this environment.")
    ] = None,
    round_: Annotated[
        int | None, typer.Option("--round", min=0, help="Only of this round; 0: demonstrations.")
    ] = None,
    success: Annotated[
        bool | None, typer.Option("--success/--failed", help="Only such episodes.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Id of a task, or a pattern as 'maze-*'.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Lines of the table; 0: all.")] = 40,
    show: Annotated[
        int | None, typer.Option(min=1, metavar="K", help="Show the K-th of them whole.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="File for them all, in AgentGym's format; - is stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """List, show or export the episodes that a run has played.

    They are the silos' private data: where the store is not the run's own, you need their
    credentials.
    """
    wanted = EpisodeFilter(round=round_, success=success, task=task)
    if export:
        common.check_target("--export", export, force=force)
    with open_silos(access.find(run), access.credentials) as every:
        matches = find(choose(every, environment), wanted)
        if export:
            _export(matches, export)
        elif show is not None:
            _show(matches, show, output)
        else:
            _list(matches, limit, output)


def choose(
    every: list[StoredSilo], environment: str | None, *, option: str = "--environment"
) -> list[StoredSilo]:
    """The silos to read, by name; prints where that is, since it is private data."""
    chosen = [silo for silo in every if environment in (None, silo.name)]
    if not chosen:
        names = ", ".join(silo.name for silo in every)
        raise InputError(f"{option}: got {environment!r}, expected one of {names}")
    for where in sorted({silo.where for silo in chosen}):
        say(f"reading the silos' private experience in {where}")
    return sorted(chosen, key=lambda silo: silo.name)


def find(chosen: list[StoredSilo], wanted: EpisodeFilter) -> Iterator[Match]:
    """The episodes in the order of silo, round and play; one shard is in memory at a time."""
    for silo in chosen:
        for round_ in _list_rounds(silo):
            if wanted.round not in (None, round_):
                continue
            key = bucket_keys.experience_shard(silo.prefix, silo.name, round_)
            try:
                episodes = shards.decode(silo.store.get(key), key).episodes
            except Corrupt as error:
                say(f"note: left out: {error.message}")
                continue
            yield from (Match(silo, each) for each in episodes if wanted.is_match(each))


def _list_rounds(silo: StoredSilo) -> list[int]:
    try:
        return shards.list_rounds(silo.store, silo.prefix, silo.name)
    except Denied:
        say(f"note: left out: {silo.name}, whose store these credentials may not read")
        return []


# -- what is done with them -----------------------------------------------------------------------


def _list(matches: Iterator[Match], limit: int, output: Format) -> None:
    facts = [each.summarize() for each in matches]
    if output is not Format.TABLE:
        print_data(facts, output)
        return
    from hansa.cli import screen
    from hansa.cli.views.federation import RowTable

    shown = facts[:limit] if limit else facts
    rows = [(str(place), *_format_row(fact)) for place, fact in enumerate(shown, start=1)]
    screen.show(screen.table(RowTable(titles=TITLES, rows=rows)))
    say(_format_summary(facts, len(shown)))


def _format_row(fact: dict[str, Any]) -> tuple[str, ...]:
    return (
        fact["environment"],
        str(fact["round"]),
        sanitize(fact["task"]),
        fact["source"],
        "success" if fact["success"] else "failure",
        format_reward(fact["reward"]),
        str(fact["turns"]),
    )


def _format_summary(facts: list[dict[str, Any]], shown: int) -> str:
    if not facts:
        return "no such episodes"
    successes = sum(fact["success"] for fact in facts)
    left = f"{shown} of " if shown < len(facts) else ""
    more = "; --limit 0 lists all, -e, --round, --failed and --task narrow it" if left else ""
    return f"{left}{len(facts)} episodes, {successes} of them successful; --show K shows one{more}"


def _show(matches: Iterator[Match], place: int, output: Format) -> None:
    have = list(islice(matches, place))
    if len(have) < place:
        raise InputError(f"--show: got {place}, but there are {len(have)} such episodes")
    each = have[-1]
    if output is not Format.TABLE:
        turns = [
            turn.model_dump(by_alias=True, exclude_none=True, exclude={"tokens", "trained"})
            for turn in each.episode.turns
        ]
        print_data({**each.summarize(), "turns": turns}, output)
        return
    print_episode(each, EpisodeScreen(console()))


def print_episode(match: Match, screen: EpisodeScreen) -> None:
    """One episode from its first observation to its end."""
    facts, turn_number = match.summarize(), 0
    screen.show_title(
        f"{facts['environment']}, round {facts['round']}, {facts['source']}, task {facts['task']}"
    )
    for turn in match.episode.turns:
        if turn.role == "agent":
            turn_number += 1
            screen.show_agent(turn_number, turn.text)
        else:
            screen.show_world(turn.text)
    screen.show_end(success=facts["success"], turns=facts["turns"], reward=facts["reward"])


def _export(matches: Iterator[Match], out: Path) -> None:
    introductions: dict[str, str] = {}
    lines = []
    for each in matches:
        name = each.silo.name
        if name not in introductions:
            introductions[name] = _find_introduction(each.silo)
        turns = each.episode.turns
        conversation = agentgym_format.make_conversation(
            each.episode.task,
            introductions[name],
            [turn.text for turn in turns],
            [place for place, turn in enumerate(turns) if turn.trained is False],
        )
        lines.append(agentgym_format.encode(conversation))
    if not lines:
        raise InputError("--export: there are no such episodes")
    where = common.write_file("--export", out, b"".join(lines))
    say(f"{len(lines)} episodes in {where}: they are private data of the silos")


def _find_introduction(silo: StoredSilo) -> str:
    """The rules that a silo's episodes begin with; empty where its world cannot be made here."""
    from hansa_worlds import make

    try:
        return make(silo.environment.world, silo.environment.options).introduction()
    except Exception:  # a package that is missing, or whatever a plug-in raises
        return ""
