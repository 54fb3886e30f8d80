"""docs/reference.md: every field of a Federation, made from the models.

tools/python tools/reference.py            writes it
tools/python tools/reference.py --check    only says whether it is stale, and ends with 1 if it is
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from hansa import reference
from hansa.reference import CHANGES, ONLY_GROWS, Entry
from hansa.schema import PathPart, at, flat
from hansa.spec import FederationSpec
from hansa.status import FederationStatus

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
INTRO = """<!-- made by tools/reference.py from the models: change those, then run it -->
# Reference

Every field of a Federation: what it means, what fits, and what counts when it is absent.
`hansa explain spec.exploration.temperature` prints one of them; `hansa validate` checks all.

- [spec](#spec) is what you write.
- [status](#status) is what Hansa writes: what has happened, what runs now, and why it waits.

A field may be changed while the federation runs. The column "a change counts" says from when on:

| a change counts | meaning |
|---|---|
"""


def main(arguments: list[str]) -> int:
    """Write or check the page; the exit code says whether it is fresh."""
    text = page()
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    if "--check" in arguments:
        print("stale: docs/reference.md; run tools/python tools/reference.py")
        return 1
    PAGE.write_text(text)
    print("wrote docs/reference.md")
    return 0


def page() -> str:
    """The page as it should be."""
    changes = [f"| {change} | {meaning} |" for change, meaning in CHANGES.items()]
    changes.append(f"| {ONLY_GROWS} | it may grow, and never shrink |")
    sections = [*_sections(reference.spec()), *_sections(reference.status())]
    return INTRO + "\n".join([*changes, "", *sections]).rstrip() + "\n"


def anchor(heading: str) -> str:
    """The name by which Markdown links to a heading."""
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def _sections(entry: Entry) -> Iterator[str]:
    """A section for the object and for each object below it."""
    level = "##" if "." not in entry.path else "###"
    yield f"{level} {entry.path}\n"
    yield f"{entry.description}\n"
    rows = _spec_rows(entry) if entry.path.startswith("spec") else _status_rows(entry)
    yield "\n".join(rows) + "\n"
    for each in entry.fields:
        if each.fields and not _same_as(each):
            yield from _sections(each)


def _spec_rows(entry: Entry) -> Iterator[str]:
    yield "| field | type | what fits | default | a change counts | meaning |"
    yield "|---|---|---|---|---|---|"
    for each in entry.fields:
        default = "**required**" if each.is_required else _code(each.default)
        cells = [_name(each), each.type, each.allowed, default, each.change, each.description]
        yield _row(cells)


def _status_rows(entry: Entry) -> Iterator[str]:
    yield "| field | type | values | meaning |"
    yield "|---|---|---|---|"
    for each in entry.fields:
        values = each.allowed if " or " in each.allowed and "string" in each.type else ""
        yield _row([_name(each), each.type, values, each.description])


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _name(entry: Entry) -> str:
    if not entry.fields:
        return f"`{entry.name}`"
    return f"[`{entry.name}`](#{anchor(_same_as(entry) or entry.path)})"


def _code(value: object) -> str:
    return "" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _same_as(entry: Entry) -> str:
    """The first object with the very same fields, which has a section already; empty: none."""
    for other in (*reference.every(reference.spec()), *reference.every(reference.status())):
        if other.path == entry.path:
            return ""
        if other.fields and _properties(other) == _properties(entry):
            same_changes = [e.change for e in other.fields] == [e.change for e in entry.fields]
            if same_changes or not entry.change:
                return other.path
    return ""


def _properties(entry: Entry) -> object:
    top, *rest = entry.path.split(".")
    path: list[PathPart] = []
    for part in rest:
        path += [part.removesuffix("[]"), 0] if part.endswith("[]") else [part]
    node = at(flat(FederationSpec if top == "spec" else FederationStatus), tuple(path))
    return node.get("items", node).get("properties")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
