"""The page's question for each silo: does joining pay, and what does it serve itself?"""

from dataclasses import replace

from hansa.api.status import EnvironmentStatus
from hansa.core.stats import difference
from hansa.report.markup import Child, Section, percent, points, section, table, tag
from hansa.report.run_facts import ReportData


def render_sections(data: ReportData) -> list[Section]:
    """What concerns each silo itself, as far as it was measured.

    Joining pays by evaluation.alone, as against evolving alone, and by evaluation.ownUpdate.
    """
    parts = [*_render_alone(data), *_render_merging(data)]
    joining = [section("joining", "Does joining pay?", *parts)] if parts else []
    return [*joining, *_render_served(data)]


def _render_alone(data: ReportData) -> list[Child]:
    """What each silo would have had alone, the shared adapter, and what it serves."""
    lines = [line for line in data.federation.status.environments if line.joined]
    if not lines:
        return []
    lead = (
        "After the last round each silo also evolved alone, from the base, for as many rounds with "
        "the same settings. All adapters played the same held-out tasks."
    )
    hint = "In brackets: 95\u202f% limits of what is served less what was had alone (Newcombe)."
    shown = table(
        ["environment", "alone", "shared", "served", "what joining brought"],
        [
            [
                line.name,
                percent(float(line.alone)),
                percent(float(line.success)) if line.success else "",
                percent(float(line.personal or line.success)) if line.success else "",
                line.joined,
            ]
            for line in lines
        ],
        caption="Success alone, by the shared adapter, and of what is served",
        class_="prose",
    )
    return [tag("p", lead, class_="lead"), shown, tag("p", hint, class_="hint")]


def _render_merging(data: ReportData) -> list[Child]:
    rows = [row for name in data.environments if (row := _row(data, name))]
    if not rows:
        return []
    heads = ["environment", "round", "global adapter", "own update", "difference"]
    lead = (
        "The newest round in which both are known: an environment's own update before it was "
        "merged, and the global adapter that came of it, on the same held-out tasks."
    )
    hint = "In brackets: 95\u202f% intervals (Newcombe), in percentage points."
    caption = "Success of the global adapter and of the own update"
    shown = table(heads, rows, caption=caption, class_="figures")
    return [tag("p", lead, class_="lead"), shown, tag("p", hint, class_="hint")]


def _row(data: ReportData, name: str) -> list[Child] | None:
    known = [entry for entry in data.rounds if name in entry.own and name in entry.scores]
    if not known:
        return None
    newest = known[-1]
    shared = newest.scores[name]
    own = replace(shared, ratio=newest.own[name])  # on the same tasks, so worth as many episodes
    gain = difference(shared.interval, own.interval)
    brackets = f"[{points(gain.low)}, {points(gain.high)}]"
    return [
        name,
        newest.number,
        percent(shared.ratio),
        percent(own.ratio),
        f"{points(gain.value)} {brackets}",
    ]


def _render_served(data: ReportData) -> list[Section]:
    """What silos chose for themselves after the last round (personalization)."""
    lines = [line for line in data.federation.status.environments if line.serves and line.personal]
    rows = [row for line in lines if (row := _build_served_row(data, line))]
    if not rows:
        return []
    heads = ["environment", "serves", "global adapter", "what it serves", "difference"]
    lead = (
        "After the last round each silo chose, by validation tasks of its own. Here is what that "
        "does on the held-out tasks that the global adapter is measured by."
    )
    caption = "Success of the global adapter and of what silos serve"
    shown = table(heads, rows, caption=caption, class_="figures")
    return [section("serves", "What each silo serves", tag("p", lead, class_="lead"), shown)]


def _build_served_row(data: ReportData, line: EnvironmentStatus) -> list[Child] | None:
    shared = data.last.scores.get(line.name) if data.last else None
    if shared is None:
        return None
    change = points(float(line.personal) - shared.ratio)
    served = percent(float(line.personal))
    return [line.name, describe_choice(line.serves), percent(shared.ratio), served, change]


def describe_choice(choice: str) -> str:
    """What a silo serves, for people."""
    kind, _, number = choice.partition("-")
    if kind == "mix":
        return f"a mix with {number}\u202f% of its own update"
    if kind == "finetuned":
        return f"evolved alone for {number} more round{'' if number == '1' else 's'}"
    words = {
        "global": "the global adapter",
        "own": "its own last update",
        "alone": "what it evolved alone",
    }
    return words.get(choice, choice)
