"""One self-contained HTML page about a federation: no script, no network, no file beside it.

The content security policy forbids everything but the page's own style, so that even a hole in the
escaping could neither run nor fetch anything.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from hansa.core.stats import difference
from hansa.report import (
    drift,
    episodes,
    joining,
    kinds,
    reference,
    run_settings,
    success,
    work,
)
from hansa.report.charts import define_markers
from hansa.report.markup import (
    Child,
    Html,
    choose_direction,
    contents,
    duration,
    format_count,
    format_time,
    join,
    percent,
    pluralize,
    points,
    script_json,
    size,
    tag,
)
from hansa.report.run_facts import EnvironmentRound, ReportData, Round, sort_phases

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
DATA_ID = "hansa-data"
_MARK = (
    "M16 5.5a3 3 0 1 0 .01 0zM26 12.8a3 3 0 1 0 .01 0zM22.2 24.5a3 3 0 1 0 .01 0z"
    "M9.8 24.5a3 3 0 1 0 .01 0zM6 12.8a3 3 0 1 0 .01 0z"
)


def render(data: ReportData) -> str:
    """The page; equal data gives equal bytes."""
    title = f"{data.federation.metadata.name} · Hansa report"
    return assemble_page(title, _body(data), collect_figures(data))


def assemble_page(title: str, body: Html, document: dict[str, Any]) -> str:
    """A page of one body and the figures in it, for programs; comparisons are written so too."""
    style = (files("hansa.report") / "page.css").read_text(encoding="utf-8")
    head = join(
        [
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", name="referrer", content="no-referrer"),
            tag("title", title),
            tag("style", Html(style)),
        ]
    )
    inner = join([define_markers(), body, script_json(DATA_ID, document)])
    page = tag("html", tag("head", head), tag("body", inner), lang="en")
    return f"<!doctype html>\n{page}\n"


def _body(data: ReportData) -> Html:
    offered = [
        success.show(data),
        *joining.render_sections(data),
        drift.show(data),
        work.render_privacy(data),
        reference.render_adapter(data),
        *work.render_sections(data),
        kinds.show(data),
        run_settings.show(data),
        episodes.show(data),
        reference.render_particulars(data),
    ]
    sections = [one for one in offered if one is not None]
    return tag(
        "main",
        _header(data),
        _render_trouble(data),
        _tiles(data),
        _note_contributions(data),
        contents(sections),
        *(one.html for one in sections),
        _footer(data),
    )


def _header(data: ReportData) -> Html:
    status = data.federation.status
    phase = tag("span", status.phase, class_=f"phase {status.phase.lower()}", data_figure="phase")
    facts = [phase, *(tag("span", fact) for fact in _facts(data))]
    return render_page_header("Hansa report", data.federation.metadata.name, facts)


def render_page_header(brand: str, title: str, facts: Sequence[Html]) -> Html:
    """The top of a page."""
    mark = tag(
        "svg",
        tag("path", d=_MARK, class_="silos"),
        tag("circle", cx=16, cy=17, r=4.2),
        viewBox="0 0 32 32",
        width=28,
        height=28,
        aria_hidden="true",
    )
    return tag(
        "header",
        tag("p", mark, tag("span", brand), class_="brand"),
        tag("h1", title),
        tag("p", *facts, class_="facts"),
        class_="top",
    )


def _facts(data: ReportData) -> list[str]:
    spec = data.federation.spec
    opened = next((entry.opened_at for entry in data.rounds if entry.opened_at), None)
    closed = next((entry.closed_at for entry in reversed(data.rounds) if entry.closed_at), None)
    facts = [spec.model.source, f"LoRA rank {spec.adapter.rank}", f"seed {spec.seed}"]
    if opened:
        facts.append(f"began {format_time(opened)}")
    if opened and closed:
        facts.append(f"took {duration((closed - opened).total_seconds())}")
    return facts


def _render_trouble(data: ReportData) -> Html | None:
    """What is wrong and what to do, before any figure."""
    status = data.federation.status
    said: list[Child] = []
    if status.failed is not None:
        text = f"Round {status.failed.round} failed ({status.failed.reason}). "
        said.append(tag("p", tag("strong", text), status.failed.message))
    for condition in status.conditions:
        bad = (condition.type, condition.status) in (("Accepted", "False"), ("Degraded", "True"))
        if bad:
            text = f"{condition.type}: {condition.reason}. "
            said.append(tag("p", tag("strong", text), condition.message))
    return tag("div", *said, class_="trouble", role="note") if said else None


def _note_contributions(data: ReportData) -> Html | None:
    """A sentence for each environment that brought nothing, and why, as the manifests say."""
    if not data.played:  # no manifest was read, so nothing is known
        return None
    names = [environment.name for environment in data.federation.spec.environments]
    sentences = [sentence for name in names if (sentence := _explain_contribution(data, name))]
    if not sentences:
        return None
    opening = "Some environments contributed nothing, or never succeeded while exploring. "
    return tag("div", tag("p", tag("strong", opening), " ".join(sentences)), class_="trouble")


def _explain_contribution(data: ReportData, name: str) -> str:
    parts = [entry.parts[name] for entry in data.played if name in entry.parts]
    if not parts:
        return f"{name} sent no update."
    explored = sum(part.explored or 0 for part in parts)
    is_barren = explored > 0 and not any(part.succeeded for part in parts)
    if _is_merged(data, name):
        episodes = f"None of the {pluralize(explored, 'episode')} that {name} explored succeeded"
        return f"{episodes}." if is_barren else ""
    reasons = sorted({why for e in data.rounds for who, why in e.refused if who == name})
    why = f": the gate refused it ({', '.join(reasons)})" if reasons else ""
    if not reasons and is_barren:
        why = f": none of its {pluralize(explored, 'explored episode')} succeeded"
    return f"No update of {name} was merged{why}."


def _is_merged(data: ReportData, name: str) -> bool:
    """Whether a round merged its update; where nothing is ever merged, every update counts."""
    merging = [entry for entry in data.rounds if entry.members]
    return not merging or any(name in entry.members for entry in merging)


def _tiles(data: ReportData) -> Html:
    status, spec = data.federation.status, data.federation.spec
    explored = data.total("explored")
    succeeded = data.total("succeeded")
    share = (
        f"{format_count(succeeded)} successful ({percent(succeeded / explored)})"
        if explored
        else ""
    )
    if spec.privacy:
        share = "how many were successful stays in the silos"
    worlds = len({environment.world for environment in spec.environments})
    return tag(
        "div",
        _headline(data),
        _tile("rounds", "Rounds", status.completed, f"of {format_count(spec.rounds)}"),
        _tile(
            "environments",
            "Environments",
            len(spec.environments),
            pluralize(worlds, "world"),
        ),
        _tile("explored", "Episodes explored", explored, share),
        _adapter_tile(data),
        class_="tiles",
    )


def _tile(figure: str, name: str, value: int, aside: str) -> Html:
    number = tag("span", format_count(value), class_="number", data_figure=figure, data_value=value)
    return tag("div", _tile_name(name), tag("p", number), tag("p", aside, class_="aside"))


def _tile_name(name: str) -> Html:
    return tag("p", name, class_="name")


def _adapter_tile(data: ReportData) -> Html:
    last = data.federation.status.adapter
    if last is None:
        shown: Child = tag("span", "none yet", class_="number quiet")
        return tag("div", _tile_name("Adapter"), tag("p", shown))
    sizes = [entry.adapter_bytes for entry in data.rounds if entry.adapter_bytes]
    shown = tag("span", size(sizes[-1]) if sizes else f"round {last.round}", class_="number")
    aside = f"round {last.round}, sha256 {last.sha256[:8]}"
    return tag("div", _tile_name("Adapter"), tag("p", shown), tag("p", aside, class_="aside"))


def _headline(data: ReportData) -> Html:
    base, last, best = data.base, data.last, data.best
    ends = (_headline_figure(name, entry) for name, entry in (("base", base), ("last", last)))
    steps = [end for end in ends if end]
    if not steps:
        steps = [tag("span", "not evaluated yet", class_="number quiet")]
    arrow = tag("span", "→", class_="arrow", aria_hidden="true")
    asides: list[Child] = []
    if base and last and base.success and last.success:
        change = difference(last.success, base.success)
        way = choose_direction(change)
        asides.append(tag("b", f"{points(change.value)} points", class_=way))
        asides.append(f"95\u202f%: {points(change.low)} to {points(change.high)}")
        asides += ["no change is shown: that includes zero"] if way == "even" else []
    highest = _headline_figure("best", best) if last else None
    return tag(
        "div",
        _tile_name("Mean success on held-out tasks"),
        tag("p", join(steps, f" {arrow} ")),
        tag("p", join(asides, " · "), class_="aside") if asides else None,
        tag("p", highest, class_="aside") if highest else None,
        class_="headline",
    )


def _headline_figure(name: str, entry: Round | None) -> Html | None:
    if entry is None or not entry.success:
        return None
    value = entry.success.value
    return tag(
        "span",
        f"best {percent(value)} in round {entry.number}" if name == "best" else percent(value),
        class_=None if name == "best" else f"number {name}",
        data_figure=f"success-{name}",
        data_round=entry.number,
        data_value=f"{value:.6g}",
    )


def _footer(data: ReportData) -> Html:
    made = f" on {format_time(data.made_at)}" if data.made_at else ""
    text = f"Made by hansa report{made}. The figures are in this page as JSON too: "
    return tag("footer", tag("p", text, tag("code", f"#{DATA_ID}"), "."))


def collect_figures(data: ReportData) -> dict[str, Any]:
    """The page's figures for programs; entry i of each list belongs to entry i of `rounds`."""
    ends = (("base", data.base), ("last", data.last), ("best", data.best))
    return {
        "federation": data.federation.metadata.name,
        "phase": data.federation.status.phase,
        "success": {
            word: {"round": entry.number, "mean": _round_figure(entry.success.value)}
            for word, entry in ends
            if entry is not None and entry.success
        },
        "rounds": [entry.number for entry in data.rounds],
        "outcomes": [entry.outcome for entry in data.rounds],
        "mean": [
            _round_figure(entry.success.value if entry.success else None) for entry in data.rounds
        ],
        "norm": [_round_figure(entry.norm) for entry in data.rounds],
        "environments": {
            name: _collect_environment_figures(data, name) for name in data.environments
        },
    }


_BY_ROUND = (
    *("explored", "succeeded", "broken", "experience", "kept"),
    *("norm", "loss", "epsilon"),
)


def _collect_environment_figures(data: ReportData, name: str) -> dict[str, Any]:
    scores = [entry.scores.get(name) for entry in data.rounds]
    parts = [entry.parts.get(name, EnvironmentRound()) for entry in data.rounds]
    spent = [part.seconds for part in parts]
    return {
        "world": data.world(name),
        "success": [_round_figure(score.ratio) if score else None for score in scores],
        "episodes": [score.episodes if score else None for score in scores],
        **{
            field: [_round_figure(getattr(part, field)) for part in parts]
            for field in _BY_ROUND
            if field != "epsilon" or data.federation.spec.privacy
        },
        "kinds": kinds.collect_figures(data, name),
        "seconds": {
            phase: [_round_figure(one.get(phase)) for one in spent]
            for phase in sort_phases(spent, ())
        },
    }


def _round_figure(value: float | None) -> float | None:
    return round(value, 6) if isinstance(value, float) else value
