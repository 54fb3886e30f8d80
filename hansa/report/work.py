"""What the rounds cost and did: exploring, experience, training, privacy, time."""

from collections.abc import Sequence
from dataclasses import dataclass

from hansa.core.stats import Interval
from hansa.report.charts import Column, Series, choose_axis_top, draw_columns, legend
from hansa.report.markup import (
    Child,
    Html,
    Section,
    details,
    duration,
    figure,
    format_count,
    format_short,
    pluralize,
    section,
    table,
    tag,
)
from hansa.report.run_facts import EnvironmentRound, ReportData, sort_phases
from hansa.report.success import draw_environment_legend, draw_part_lines

TONES = {"load": "p0", "evaluate": "p1", "explore": "p2", "train": "p3", "send": "p4"}
"""Phases of a client in the order they happen, with their colour."""
OTHER = "p5"
SERVER_PHASES = ("read", "aggregate", "write")
MOST_PANELS = 12
_TONES = 6


def render_sections(data: ReportData) -> list[Section]:
    """Experience, training and time, or nothing before the first round has ended."""
    if not any(entry.number for entry in data.rounds):
        return []
    if data.federation.spec.privacy:  # episodes, losses and seconds stay in the silos
        return [render_training(data)]
    return [render_experience(data), render_training(data), render_time(data)]


def render_experience(data: ReportData) -> Section:
    """Episodes played and kept, and how the silos' experience grows."""
    if not data.played:
        return section("experience", "Experience", _say_nothing_read())
    label = "Trajectories trained on, by environment."
    kept = draw_part_lines(data, "kept", label=label, show=format_count)
    label = "Episodes explored per round, successful and not."
    explored = _shares(data, "explored", "succeeded", label)
    label = "Experience of all environments per round, trained on and not."
    grown = _shares(data, "experience", "kept", label)
    ended = legend([("successful", "p2", None), ("not successful", "p5", None)])
    used = legend([("trained on", "p2", None), ("not used", "p5", None)])
    return section(
        "experience",
        "Experience",
        tag("p", _write_kept_sentence(data), class_="lead"),
        tag(
            "div",
            figure("Episodes explored", explored, ended),
            figure("Experience, in trajectories", grown, used),
            figure("Trained on, by environment", kept, draw_environment_legend(data)),
            class_="panels",
        ),
        details("Figures of experience", _experience_table(data)),
    )


def _write_kept_sentence(data: ReportData) -> str:
    explored = data.total("explored")
    succeeded = data.total("succeeded")
    broken = data.total("broken")
    text = (
        f"The environments played {pluralize(explored, 'episode')}, {format_count(succeeded)} of "
        f"them with success; {_describe_filter(data)}. They stay in the silos."
    )
    if broken == 1:
        return f"{text} 1 more was dropped: its world failed in it."
    if broken:
        return f"{text} {format_count(broken)} more were dropped: their worlds failed in them."
    return text


def _describe_filter(data: ReportData) -> str:
    """By the filter that the rounds used, which need not be that of the present spec."""
    used = [entry.inputs.settings.get("experience.filter") for entry in data.played if entry.inputs]
    filters = {one for one in used if one} or {data.federation.spec.experience.filter}
    if len(filters) > 1:
        return "some rounds kept those for training, others all, beside the demonstrations"
    kept = "all of them are" if filters == {"none"} else "those are"
    return f"{kept} kept for training, beside the demonstrations"


def _shares(data: ReportData, whole_of: str, part_of: str, label: str) -> Html:
    """A count over all environments as bars, with the part of it that counts below the rest."""
    bars = []
    for entry in data.played:
        everything = entry.total(whole_of)
        some = min(entry.total(part_of), everything)
        title = f"round {entry.number}: {format_count(some)} of {format_count(everything)}"
        layers = (float(some), float(everything - some))
        bars.append(Column(round=entry.number, layers=layers, title=title))
    return draw_columns(bars, ("p2", "p5"), label=label, height=170, show=format_count)


def _experience_table(data: ReportData) -> Html:
    heads = ["round", "explored", "successful", "experience", "trained on", "steps", "tokens"]
    counts = ("explored", "succeeded", "experience", "kept", "steps", "tokens")
    rows: list[Sequence[Child]] = [
        [entry.number, *(format_count(entry.total(count)) for count in counts)]
        for entry in data.played
    ]
    caption = "Experience per round, all environments together"
    return table(heads, rows, caption=caption, class_="dense")


def render_training(data: ReportData) -> Section:
    """How far each update moves, and the loss it was trained to."""
    if not data.played:
        return section("training", "Training", _say_nothing_read())
    steps = [
        (entry.number, Interval(entry.norm, entry.norm, entry.norm))
        for entry in data.rounds
        if entry.norm is not None
    ]
    step = Series(name="global step", points=steps, tone="mean", shape=0)
    norms = draw_part_lines(data, "norm", label="Update norms.", show=format_short, extra=[step])
    losses = draw_part_lines(data, "loss", label="Loss.", show=format_short)
    return section(
        "training",
        "Training",
        tag(
            "div",
            figure("Norm of each update; bold: the global adapter's step", norms),
            figure("Training loss", losses),
            class_="pair",
        ),
        draw_environment_legend(data, "global step"),
        details("Figures of training", _training_table(data)),
    )


def _training_table(data: ReportData) -> Html:
    heads = ["round", "global step", *data.environments]
    rows: list[Sequence[Child]] = [
        [
            entry.number,
            format_short(entry.norm),
            *(_norm_and_loss(entry.parts.get(name)) for name in data.environments),
        ]
        for entry in data.played
    ]
    caption = "Norm of the update / training loss, per round and environment"
    return table(heads, rows, caption=caption, class_="dense")


def _norm_and_loss(part: EnvironmentRound | None) -> str:
    return f"{format_short(part.norm)} / {format_short(part.loss)}" if part else "–"


def render_privacy(data: ReportData) -> Section | None:
    """What each silo has revealed of one record by each round, bounded by spec.privacy."""
    privacy = data.federation.spec.privacy
    if privacy is None:
        return None
    if not data.played:
        nothing = tag("p", "No round has ended yet: nothing was given away.", class_="empty")
        return section("privacy", "Privacy", nothing)
    lead = (
        f"Whoever sees all that left a silo learns at most this epsilon about one "
        f"{privacy.unit} of it, at a delta of {privacy.delta:g}; the spec allows "
        f"{privacy.epsilon:g}. It is each silo's word."
    )
    drawn = draw_part_lines(data, "epsilon", label="Epsilon, by environment.", show=format_short)
    rows: list[Sequence[Child]] = []
    for entry in data.played:
        parts = [entry.parts.get(name, EnvironmentRound()) for name in data.environments]
        rows.append([entry.number, *(format_short(part.epsilon) for part in parts)])
    heads = ["round", *data.environments]
    return section(
        "privacy",
        "Privacy",
        tag("p", lead, class_="lead"),
        figure("Epsilon after each round", drawn, draw_environment_legend(data)),
        table(heads, rows, caption="Epsilon, per round and environment", class_="dense"),
    )


def render_time(data: ReportData) -> Section:
    """Where the seconds of a round go, for every environment and the aggregator."""
    lanes = [
        Lane(name, [(e.number, e.parts[name].seconds) for e in data.played if name in e.parts])
        for name in data.environments
    ]
    clients = [lane for lane in lanes if lane.total]
    server = Lane("aggregator", [(e.number, e.seconds) for e in data.rounds if e.seconds])
    if not clients and not server.total:
        return section("time", "Time", _say_nothing_read())
    shown, sentence = _choose_slowest(clients)
    spent = [one for lane in clients for _, one in lane.rounds]
    top = choose_axis_top(max((sum(one.values()) for one in spent), default=0))
    drawn = [_panel(lane, top) for lane in shown]
    drawn += [_panel(server, None)] if server.total else []
    tables = [_lane_table(lane) for lane in (*shown, server) if lane.total]
    return section(
        "time",
        "Time",
        tag("p", f"Seconds of each phase, by environment and round.{sentence}", class_="lead"),
        _phase_legend(sort_phases(spent, tuple(TONES))),
        tag("div", *drawn, class_="panels"),
        details("Figures of time", *tables),
    )


@dataclass(frozen=True)
class Lane:
    """Who spent time, and on what in which round."""

    name: str
    rounds: Sequence[tuple[int, dict[str, float]]]
    """(round, seconds of each phase)."""

    @property
    def total(self) -> float:
        """All its seconds."""
        return sum(sum(one.values()) for _, one in self.rounds)


def _choose_slowest(lanes: Sequence[Lane]) -> tuple[Sequence[Lane], str]:
    if len(lanes) <= MOST_PANELS:
        return lanes, ""
    slowest = sorted(lanes, key=lambda lane: -lane.total)[:MOST_PANELS]
    shown = [lane for lane in lanes if lane in slowest]
    return shown, f" The {MOST_PANELS} that took longest, of {len(lanes)}."


def _group_phases(seconds: dict[str, float]) -> list[tuple[str, str, float]]:
    """(phase, tone, seconds) in the order of a round; unknown phases are one layer."""
    groups = [(phase, tone, seconds.get(phase, 0.0)) for phase, tone in TONES.items()]
    rest = sum(value for phase, value in seconds.items() if phase not in TONES)
    return [*groups, ("other", OTHER, rest)]


def _phase_legend(known: Sequence[str]) -> Html:
    entries: list[tuple[str, str, int | None]] = [
        (phase, tone, None) for phase, tone in TONES.items() if phase in known
    ]
    others = any(phase not in TONES for phase in known)
    return legend([*entries, ("other", OTHER, None)] if others else entries)


def _panel(lane: Lane, top: float | None) -> Html:
    """Bars of one lane; without a top of its own scale, since aggregating takes so much less."""
    rows = [(number, _layers(lane, one)) for number, one in lane.rounds]
    bars = [
        Column(
            round=number,
            layers=[value for _, _, value in layers],
            title=f"round {number}, seconds: "
            + ", ".join(f"{phase} {value:.3g}" for phase, _, value in layers if value),
        )
        for number, layers in rows
    ]
    tones = [tone for _, tone, _ in rows[0][1]]
    label = f"Phase times of {lane.name}, together {duration(lane.total)}."
    drawing = draw_columns(bars, tones, label=label, height=110, show=_seconds, top=top)
    own = legend([(phase, tone, None) for phase, tone, _ in rows[0][1]]) if top is None else None
    return figure(lane.name, drawing, own, aside=duration(lane.total))


def _layers(lane: Lane, seconds: dict[str, float]) -> list[tuple[str, str, float]]:
    if lane.name != "aggregator":
        return _group_phases(seconds)
    names = sort_phases((one for _, one in lane.rounds), SERVER_PHASES)
    return [(name, f"p{i % _TONES}", seconds.get(name, 0.0)) for i, name in enumerate(names)]


def _seconds(value: float) -> str:
    return f"{value:.3g}\u202fs"


def _lane_table(lane: Lane) -> Html:
    own = sort_phases((one for _, one in lane.rounds), (*TONES, *SERVER_PHASES))
    rows: list[Sequence[Child]] = [
        [number, *(f"{one[phase]:.1f}" if phase in one else "–" for phase in own)]
        for number, one in lane.rounds
    ]
    shown = table(
        ["round", *own], rows, caption=f"Seconds of {lane.name}, by phase", class_="dense"
    )
    return tag("div", tag("h3", lane.name, class_="small"), shown)


def _say_nothing_read() -> Html:
    return tag("p", "No manifest of a finished round could be read.", class_="empty")
