"""`hansa worlds`: which worlds there are, and how players without a model do in them."""

from typing import Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data, say
from hansa.core.errors import InputError
from hansa_client.commands import common
from hansa_worlds import listing, names
from hansa_worlds.base import SPLITS, Split
from hansa_worlds.errors import NoPlayer, WorldError
from hansa_worlds.players import PLAYERS, score


def worlds(
    options: common.WorldOptions,
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
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the players.")] = 7,
    output: Output = Format.TABLE,
) -> None:
    """List the worlds, or measure chance, greed and the expert in them.

    Chance chooses among all well-formed actions (random) or those that do something (legal).
    """
    world = [common.resolve_name(name) for name in world or []]
    given = options.read()
    if given and len(world) != 1:
        raise InputError(f"--option: got it for {len(world) or 'all'} worlds, expected one")
    if measure:
        entries = _measure(world, given, split, episodes, seed, groups=by_group)
    else:
        entries = _describe(world, given)
    if output is not Format.TABLE:
        print_data(entries, output)
    elif measure:
        _show_scores(entries)
    else:
        _show_list(entries)


def _describe(chosen: list[str], given: dict[str, Any]) -> list[dict[str, Any]]:
    if not chosen:
        return [listing.describe_safely(name, {}) for name in names()]
    described = []
    for name in chosen:
        with common.explain_world_errors(name):
            described.append(listing.describe(name, given))
    return described


def _measure(
    chosen: list[str],
    given: dict[str, Any],
    split: Split,
    episodes: int | None,
    seed: int,
    *,
    groups: bool,
) -> list[dict[str, Any]]:
    entries = []
    for name in chosen or _find_playable():
        entry: dict[str, Any] = {"world": name, "options": given, "split": split, "seed": seed}
        entry["players"] = {}
        for player in PLAYERS:
            figures = _play(name, given, player, split, episodes, seed)
            if figures and not groups:
                figures.pop("groups", None)
            if figures:
                entry["players"][player] = figures
        entries.append(entry)
    return entries


def _find_playable() -> list[str]:
    """The worlds that can be played without options; the others are reported as left out."""
    listed = []
    for name in names():
        described = listing.describe_safely(name, {})
        why = described.get("trouble") or ("it waits for a server" if described["waits"] else "")
        if why:
            say(f"{name}: left out ({why}); name it to play it")
        else:
            listed.append(name)
    return listed


def _play(
    name: str, given: dict[str, Any], player: str, split: Split, episodes: int | None, seed: int
) -> dict[str, Any] | None:
    """A player's figures; None where the world has no such player."""
    progress = common.ProgressCounter(f"episodes of {name}, {player}")
    try:
        return listing.to_data(score(name, given, player, split, episodes, seed, progress))
    except NoPlayer:
        return None
    except WorldError as error:
        raise InputError(str(error)) from error
    finally:
        progress.clear()


def _show_list(entries: list[dict[str, Any]]) -> None:
    from hansa.cli.screen import show, table
    from hansa.cli.views.federation import RowTable

    titles = ("WORLD", *(split.upper() for split in SPLITS), "TURNS")
    builtin = [entry for entry in entries if entry["from"] == "builtin"]
    packaged = [entry for entry in entries if entry["from"] != "builtin"]
    if builtin:
        notes = [f"{entry['world']}: {entry['trouble']}" for entry in builtin if "trouble" in entry]
        notes.append("Success of players is in the test split; measure it: hansa worlds --score")
        scores = [[_format_score(entry, player) for player in PLAYERS] for entry in builtin]
        rows = [(*_format_size(e), *s, e["about"]) for e, s in zip(builtin, scores, strict=True)]
        titles_here = (*titles, *(player.upper() for player in PLAYERS), "ABOUT")
        show(table(RowTable(titles=titles_here, rows=rows, rest="\n".join(notes))))
    if builtin and packaged:
        print()
    if packaged:
        named = [(*_format_size(e), e["from"], e["about"], e.get("trouble", "")) for e in packaged]
        show(table(RowTable(titles=(*titles, "PACKAGE", "ABOUT", "MISSING"), rows=named)))


def _format_size(entry: dict[str, Any]) -> tuple[str, ...]:
    if "trouble" in entry:
        return (entry["world"], *[""] * (len(SPLITS) + 1))
    tasks = [str(entry["tasks"][split]) for split in SPLITS]
    return (entry["world"], *tasks, str(entry["maxTurns"]))


def _format_score(entry: dict[str, Any], player: str) -> str:
    if "trouble" in entry:
        return ""
    if player not in entry["players"]:
        return "-"
    known = (entry["scores"] or {}).get(player)
    return f"{known['success']:.0%}" if known else "?"


def _show_scores(entries: list[dict[str, Any]]) -> None:
    from hansa.cli.screen import show, table
    from hansa.cli.views.federation import RowTable

    titles = ("WORLD", "PLAYER", "SUCCESS", "95 % INTERVAL", "TURNS", "TASKS", "EPISODES")
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        for player, figures in entry["players"].items():
            rows.append(_format_figures(entry["world"], player, figures))
        kinds = sorted({kind for f in entry["players"].values() for kind in f.get("groups", {})})
        for kind in kinds:
            for player, figures in entry["players"].items():
                rows.append(_format_figures(kind, player, figures["groups"][kind]))
    show(table(RowTable(titles=titles, rows=tuple(rows))))


def _format_figures(name: str, player: str, figures: dict[str, Any]) -> tuple[str, ...]:
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
