"""HTML that cannot be broken out of: every text is escaped unless it is markup made here.

Episodes and specs are written by strangers. `tag` escapes each child that is not `Html`, and
`visible` shows control and direction characters instead of obeying them, so that a trajectory can
neither run a script nor turn the text around it.
"""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hansa.core.sanitize import sanitize
from hansa.core.stats import Interval
from hansa.core.text import count


class Html(str):
    """Markup made by this package; any other string is text."""

    __slots__ = ()


Child = str | int | float | None

_VOID = frozenset({"meta", "br", "link", "hr"})
_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")


def escape(text: object) -> Html:
    """Text as markup, fit for element content and for quoted attributes."""
    return Html(html.escape(sanitize(text), quote=True))


def join(children: Iterable[Child], between: str = "") -> Html:
    """Children one after the other; those that are text are escaped."""
    parts = (c if isinstance(c, Html) else escape(c) for c in children if c is not None)
    return Html(between.join(parts))


def tag(name: str, /, *children: Child, **attributes: str | int | float | bool | None) -> Html:
    """An element; `class_` is written class, `data_round` data-round, and None leaves one out."""
    written = "".join(
        f" {_attribute(key)}" if value is True else f' {_attribute(key)}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def _attribute(key: str) -> str:
    # SVG's own names have capitals and no dashes, so only underscores need a translation.
    return key.rstrip("_").replace("_", "-")


@dataclass(frozen=True)
class Section:
    """A part of the page with its heading, which the table of contents leads to."""

    identifier: str
    title: str
    body: Html

    @property
    def html(self) -> Html:
        """The element."""
        heading = tag("h2", self.title, id=self.identifier)
        return tag("section", heading, self.body, aria_labelledby=self.identifier)


def section(identifier: str, title: str, *children: Child) -> Section:
    """A section of these children."""
    return Section(identifier, title, join(children))


def contents(sections: Iterable[Section]) -> Html:
    """The table of contents: a link to each section's heading."""
    links = (tag("a", one.title, href=f"#{one.identifier}") for one in sections)
    items = tag("ol", *(tag("li", link) for link in links))
    return tag("nav", items, class_="contents", aria_label="Contents")


def figure(caption: Child, *children: Child, aside: str = "", class_: str = "") -> Html:
    """A chart below its caption; `aside` is a figure beside the caption."""
    beside = tag("span", aside, class_="figure") if aside else None
    head = tag("figcaption", tag("strong", caption), beside)
    return tag("figure", head, *children, class_=class_ or None)


def table(
    heads: Sequence[Child],
    rows: Iterable[Sequence[Child]],
    *,
    caption: str,
    class_: str = "",
) -> Html:
    """A table that scrolls inside itself on a narrow screen; the first column heads its row."""
    head = tag("tr", *(tag("th", cell, scope="col") for cell in heads))
    body = (_row(row) for row in rows)
    above = tag("caption", tag("span", caption))
    inner = tag("table", above, tag("thead", head), tag("tbody", *body), class_=class_ or None)
    return tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex=0)


def _row(cells: Sequence[Child]) -> Html:
    # HTML closes cells and rows implicitly, which makes the page a tenth smaller.
    first, *others = cells
    return Html(f'<tr><th scope="row">{join([first])}{join(_cell(cell) for cell in others)}')


def _cell(cell: Child) -> Html:
    if isinstance(cell, Html) and cell.startswith("<td"):
        return cell
    return Html(f"<td>{join([cell])}")


def details(summary: Child, *children: Child, open_: bool = False) -> Html:
    """A part of the page that opens on demand."""
    return tag("details", tag("summary", summary), *children, open=open_)


def script_json(identifier: str, document: Mapping[str, Any]) -> Html:
    """Data for programs, inside the page; no text in it can end the element."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{escape(identifier)}">{text}</script>')


def strip_credentials(text: str) -> str:
    """An address without the user and password someone may have put into it."""
    return _CREDENTIALS.sub("***@", text)


# Figures as people read them

THIN = "\u202f"


def percent(ratio: float) -> str:
    """A ratio as 61.3 %."""
    return f"{ratio * 100:.1f}{THIN}%"


def tick(ratio: float) -> str:
    """A ratio on an axis: 25 %."""
    return f"{ratio * 100:.3g}{THIN}%"


def limits(figure: Interval) -> str:
    """The 95 % limits of a ratio in per cent: [31.9, 50.8]."""
    return f"[{figure.low * 100:.1f}, {figure.high * 100:.1f}]"


def format_change(figure: Interval) -> Html:
    """A difference in percentage points with its limits; coloured only if they exclude zero."""
    number = tag("b", points(figure.value), class_=choose_direction(figure))
    return join([number, tag("small", f"[{points(figure.low)}, {points(figure.high)}]")])


def choose_direction(change: Interval) -> str:
    """CSS class of a difference: a change is shown only where its interval excludes zero."""
    return "up" if change.low > 0 else "down" if change.high < 0 else "even"


def pluralize(number: int, noun: str) -> str:
    """A count with its noun: 1 round, 2 rounds."""
    return count(number, noun, show=format_count)


def join_names(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def points(change: float) -> str:
    """A difference of ratios in percentage points, with its sign."""
    rounded = round(change * 100, 1)
    return "0.0" if rounded == 0 else f"{rounded:+.1f}".replace("-", "\u2212")


def format_count(number: float | None) -> str:
    """A count with thin spaces between its thousands; a dash when it is unknown."""
    return "–" if number is None else f"{number:,.0f}".replace(",", THIN)


def format_short(number: float | None) -> str:
    """A figure with three digits, however large or small."""
    return "–" if number is None else f"{number:.3g}"


def duration(seconds: float | None) -> str:
    """Seconds as 2.1 s, 43 s, 5 min 10 s or 1 h 12 min."""
    if seconds is None:
        return "–"
    if seconds < 9.95:
        return f"{seconds:.1f}{THIN}s"
    minutes, left = divmod(round(seconds), 60)
    if not minutes:
        return f"{left}{THIN}s"
    hours, minutes_left = divmod(minutes, 60)
    if not hours:
        return f"{minutes}{THIN}min {left}{THIN}s"
    return f"{hours:,}{THIN}h {minutes_left}{THIN}min"


def size(number: int | None) -> str:
    """Bytes as 3.5 MiB."""
    if number is None:
        return "–"
    value = float(number)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.3g}{THIN}{unit}"
        value /= 1024
    return f"{value:.3g}{THIN}GiB"


def format_time(when: datetime | None) -> str:
    """A time in UTC, whatever zone it came in."""
    if when is None:
        return "–"
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
