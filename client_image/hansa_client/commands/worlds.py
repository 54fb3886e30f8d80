"""`hansa worlds`: which worlds there are, and how players without a model do in them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data, say
from hansa.errors import InputError
from hansa_client.commands import common
from hansa_client.worlds import listing, names
from hansa_client.worlds.base import SPLITS, Split
from hansa_client.worlds.errors import NoPlayer, WorldError
from hansa_client.worlds.players import PLAYERS, score


def worlds(
    world: Annotated[
        list[str] | None, typer.Argument(metavar="WORLD", help="Only these; default: all.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--score", help="Play the split with every player and print scores.")
    ] = False,
    split: common.SplitName = "test",
    episodes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Per player; default: every task, and again until there are 1,000."
        ),
    ] = None,
    by_group: Annotated[
        bool, typer.Option("--by-group", help="Scores of each kind of task, such as levels, too.")
    ] = False,
    option: common.OptionPairs = None,
    options: common.OptionsText = "{}",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the players' luck.")] = 7,
    output: Output = Format.TABLE,
) -> None:
    """List the worlds, or measure chance, greed and the expert in them.

    Chance chooses among all well-formed actions (random) or those that do something (legal).
    """
    given = common.read_options(option, options)
    if given and len(world or []) != 1:
        raise InputError(f"--option: got it for {len(world or []) or 'all'} worlds, expected one")
    if measure:
        found = _measure(world or [], given, split, episodes, seed, groups=by_group)
    else:
        found = _describe(world or [], given)
    if output is not Format.TABLE:
        print_data(found, output)
    elif measure:
        _show_scores(found)
    else:
        _show_list(found)


def _describe(chosen: list[str], given: dict[str, Any]) -> list[dict[str, Any]]:
    if not chosen:
        return [listing.describe_or_say_why(name, {}) for name in names()]
    with common.explained():
        return [listing.describe(name, given) for name in chosen]


def _measure(
    chosen: list[str],
    given: dict[str, Any],
    split: Split,
    episodes: int | None,
    seed: int,
    *,
    groups: bool,
) -> list[dict[str, Any]]:
    found = []
    for name in chosen or _playable():
        entry: dict[str, Any] = {"world": name, "options": given, "split": split, "seed": seed}
        entry["players"] = {}
        for player in PLAYERS:
            figures = _play(name, given, player, split, episodes, seed)
            if figures and not groups:
                figures.pop("groups", None)
            if figures:
                entry["players"][player] = figures
        found.append(entry)
    return found


def _playable() -> list[str]:
    """The worlds that play here and need no options; others are named, so that they are missed."""
    found = []
    for name in names():
        described = listing.describe_or_say_why(name, {})
        why = described.get("trouble") or ("it waits for a server" if described["waits"] else "")
        if why:
            say(f"{name}: left out ({why}); name it to play it")
        else:
            found.append(name)
    return found


def _play(
    name: str, given: dict[str, Any], player: str, split: Split, episodes: int | None, seed: int
) -> dict[str, Any] | None:
    """A player's figures; None where the world has no such player."""
    shown: list[common.Progress] = []

    def progress(done: int, total: int) -> None:
        if not shown:
            shown.append(common.Progress(f"episodes of {name}, {player}", total))
        shown[0](done)

    try:
        return listing.to_data(score(name, given, player, split, episodes, seed, progress))
    except NoPlayer:
        return None
    except WorldError as error:
        raise InputError(str(error)) from error
    finally:
        for line in shown:
            line.end()


def _show_list(found: list[dict[str, Any]]) -> None:
    from hansa.cli.screen import show, table
    from hansa.cluster.view import Table

    titles = ("WORLD", *(split.upper() for split in SPLITS), "TURNS")
    titles += (*(player.upper() for player in PLAYERS), "FROM", "ABOUT")
    rows = tuple(_listed(entry) for entry in found)
    notes = [f"{entry['world']}: {entry['trouble']}" for entry in found if "trouble" in entry]
    notes.append("Success of players is that in the test split; measure it: hansa worlds --score")
    show(table(Table(titles=titles, rows=rows, rest="\n".join(notes))))


def _listed(entry: dict[str, Any]) -> tuple[str, ...]:
    if "trouble" in entry:
        nothing = [""] * (len(SPLITS) + 1 + len(PLAYERS))
        return (entry["world"], *nothing, entry["from"], entry["about"])
    tasks = [str(entry["tasks"][split]) for split in SPLITS]
    scores = [_listed_score(entry, player) for player in PLAYERS]
    return (
        entry["world"],
        *tasks,
        str(entry["maxTurns"]),
        *scores,
        entry["from"],
        entry["about"],
    )


def _listed_score(entry: dict[str, Any], player: str) -> str:
    if player not in entry["players"]:
        return "-"
    known = (entry["scores"] or {}).get(player)
    return f"{known['success']:.0%}" if known else "?"


def _show_scores(found: list[dict[str, Any]]) -> None:
    from hansa.cli.screen import show, table
    from hansa.cluster.view import Table

    titles = ("WORLD", "PLAYER", "SUCCESS", "95 % INTERVAL", "TURNS", "TASKS", "EPISODES")
    rows: list[tuple[str, ...]] = []
    for entry in found:
        for player, figures in entry["players"].items():
            rows.append(_scored(entry["world"], player, figures))
        kinds = sorted({kind for f in entry["players"].values() for kind in f.get("groups", {})})
        for kind in kinds:
            for player, figures in entry["players"].items():
                rows.append(_scored(kind, player, figures["groups"][kind]))
    show(table(Table(titles=titles, rows=tuple(rows))))


def _scored(name: str, player: str, figures: dict[str, Any]) -> tuple[str, ...]:
    low, high = figures["interval"]
    return (
        name,
        player,
        f"{figures['success']:.1%}",
        f"{low:.1%} to {high:.1%}",
        f"{figures['turns']:.2f}",
        str(figures["tasks"]),
        str(figures["episodes"]),
    )
