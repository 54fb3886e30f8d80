"""What the rounds were computed from, by their own manifests, and what changed on the way."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hansa.api.spec import Adapter, differences
from hansa.api.status import RoundSettings
from hansa.report.markup import Child, Html, Section, details, join, pluralize, section, table, tag
from hansa.report.redact import redact
from hansa.report.run_facts import ReportData, RoundInputs

GROUPS = ("model", "adapter", "exploration", "experience", "training", "aggregation", "evaluation")
"""Parts of the spec that a round's results depend on."""
_MOST_LEAVES = 200
_LONGEST_VALUE = 120
_NOT_YET = "no round yet"

Leaves = dict[str, Any]
Change = tuple[str, Any, Any, str]
"""(setting, value before, value after, since when)."""


def flatten_settings(inputs: Mapping[str, Any]) -> Leaves:
    """Settings of a manifest's inputs by their paths in the spec."""
    known = {group: inputs[group] for group in GROUPS if group in inputs}
    known |= {"seed": inputs["seed"]} if "seed" in inputs else {}
    return dict(_flatten(redact(known)))


def flatten_world(world: Any, options: Any) -> Leaves:
    """An environment's world and the world's options."""
    return dict(_flatten(redact({"world": world, "options": options or {}})))


def _flatten(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    pending = [("", document)]
    count = 0
    while pending and count < _MOST_LEAVES:
        path, value = pending.pop(0)
        if isinstance(value, dict) and (value or not path):
            pending += [(f"{path}.{key}" if path else str(key), one) for key, one in value.items()]
        else:
            count += 1
            yield path[:_LONGEST_VALUE], value


def show(data: ReportData) -> Section:
    """The section: what changed, what differs from the defaults, and all the rest on demand."""
    used = [*((entry.number, entry.inputs) for entry in data.rounds if entry.inputs), *_open(data)]
    if not used:
        empty = "No manifest says what the rounds used; the present spec is below, in Particulars."
        return section("settings", "Settings", tag("p", empty, class_="empty"))
    changes = [*_list_changes(used), *_list_pending_changes(data, used[-1][1])]
    return section(
        "settings",
        "Settings",
        tag("p", _lead(used, changes), class_="lead"),
        _change_table(changes) if changes else None,
        *_tables(used),
    )


def _open(data: ReportData) -> list[tuple[int, RoundInputs]]:
    """The open round, whose settings are frozen in the status."""
    current = data.federation.status.current
    if current is None or current.kind != "round":
        return []
    worlds = {one.name: flatten_world(one.world, one.options) for one in current.environments}
    settings = flatten_settings(current.settings.to_json())
    return [(current.round, RoundInputs(settings=settings, worlds=worlds))]


def _lead(used: Sequence[tuple[int, RoundInputs]], changes: Sequence[Change]) -> str:
    first, last = used[0][0], used[-1][0]
    if first == last:
        return f"What round {first} was computed from, as its manifests say."
    count = len({path for path, _, _, since in changes if since != _NOT_YET})
    changed = f"{pluralize(count, 'setting')} changed" if count else "No setting changed"
    source = "What each round was computed from, as its manifests say."
    return f"{source} {changed} between rounds {first} and {last}."


def _list_changes(used: Sequence[tuple[int, RoundInputs]]) -> list[Change]:
    changes: list[Change] = []
    settings: Leaves = {}
    worlds: dict[str, Leaves] = {}
    for number, inputs in used:
        since = f"round {number}"
        changes += _compare_settings(settings, inputs.settings, since)
        settings |= inputs.settings
        for name, own in inputs.worlds.items():
            changes += _compare_worlds(name, worlds.get(name, own), own, since)
            worlds[name] = own
    return changes


def _compare_settings(old: Leaves, new: Leaves, since: str) -> list[Change]:
    """Changed values of settings that both sides name: inputs leave some defaults out."""
    both = sorted(old.keys() & new.keys())
    return [(path, old[path], new[path], since) for path in both if old[path] != new[path]]


def _compare_worlds(name: str, old: Leaves, new: Leaves, since: str) -> list[Change]:
    return [(f"{name}: {path}", was, is_, since) for path, was, is_ in differences(old, new)]


def _list_pending_changes(data: ReportData, last: RoundInputs) -> list[Change]:
    """What the spec says now and no round has used."""
    spec, factor = data.federation.spec, data.federation.status.step_factor
    present = {**spec.to_json(), **RoundSettings.from_spec(spec, factor).to_json()}
    changes = _compare_settings(last.settings, flatten_settings(present), _NOT_YET)
    for one in spec.environments:
        own = flatten_world(one.world, one.options)
        changes += _compare_worlds(one.name, last.worlds.get(one.name, own), own, _NOT_YET)
    return changes


def _change_table(changes: Sequence[Change]) -> Html:
    rows = [
        [path, shorten_value(was), shorten_value(is_), since] for path, was, is_, since in changes
    ]
    heads = ["setting", "was", "became", "used since"]
    return table(heads, rows, caption="Settings that changed", class_="prose")


def list_differing(settings: Leaves) -> list[tuple[str, Any, Any]]:
    """Settings that differ from their defaults: path, value, and the default or None."""
    usual = flatten_settings({**RoundSettings().to_json(), "adapter": Adapter().to_json()})
    return [
        (path, value, usual.get(path))
        for path, value in sorted(settings.items())
        if path not in usual or value != usual[path]
    ]


def _tables(used: Sequence[tuple[int, RoundInputs]]) -> list[Html]:
    last, inputs = used[-1]
    differing: list[Sequence[Child]] = [
        [path, shorten_value(value), shorten_value(usual)]
        for path, value, usual in list_differing(inputs.settings)
    ]
    heads = ["setting", "value", "default"]
    caption = f"Settings of round {last} that are not the defaults"
    others: list[Sequence[Child]] = [
        [path, shorten_value(value)] for path, value in sorted(inputs.settings.items())
    ]
    every = table(["setting", "value"], others, caption=f"All settings of round {last}")
    shown = [table(heads, differing, caption=caption, class_="prose")] if differing else []
    shown.append(details(f"All settings of round {last}", every))
    if inputs.worlds:
        shown.append(details("Options of the worlds", _world_table(last, inputs)))
    return [join(shown)]


def _world_table(last: int, inputs: RoundInputs) -> Html:
    rows: list[Sequence[Child]] = [
        [f"{name}: {path}", shorten_value(value)]
        for name, own in sorted(inputs.worlds.items())
        for path, value in own.items()
    ]
    caption = f"World and options of each environment in round {last}"
    return table(["setting", "value"], rows, caption=caption, class_="prose")


def shorten_value(value: Any, most: int = _LONGEST_VALUE) -> str:
    """A setting's value on a page, cut where it is long."""
    if value is None:
        return "–"
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
