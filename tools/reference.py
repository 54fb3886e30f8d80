"""docs/reference.md and docs/reference-member.md: every field of both kinds, from the models.

tools/python tools/reference.py            writes them
tools/python tools/reference.py --check    only says which are stale, and ends with 1 if one is
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from hansa.manifests import reference
from hansa.manifests.crd import FEDERATION, MEMBER, CrdDefinition
from hansa.manifests.reference import AT_ONCE, CHANGES, NEVER, ONLY_GROWS, ReferenceField
from hansa.validation.json_schema import PathPart, find_field, flatten_schema

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {"reference.md": FEDERATION, "reference-member.md": MEMBER}
NOTE = "<!-- made by tools/reference.py from the models: change those, then run it -->\n"
INTROS = {
    FEDERATION: """# Reference

Every field of a Federation: what it means, what fits, and what counts when it is absent.
`hansa explain spec.exploration.temperature` prints one of them; `hansa validate` checks all.
The fields of a FederationMember are on [a page of their own](reference-member.md).

- [spec](#spec) is what you write.
- [status](#status) is what Hansa writes: what has happened, what runs now, and why it waits.

A field may be changed while the federation runs. The column "a change counts" says from when on:
""",
    MEMBER: """# Reference of members

Every field of a FederationMember, [a silo's part](members.md) in somebody else's federation.
`hansa explain --member spec.limits` prints one of them.

- [spec](#spec) is what the silo's owner writes; `hansa member INVITATION` prints most of it.
- [status](#status) is what Hansa writes: the newest order, what became of it, and what it has used.

A field may be changed at any time. The column "a change counts" says from when on:
""",
}


def main(arguments: list[str]) -> int:
    """Write or check the pages; the exit code says whether all are fresh."""
    stale = [name for name, kind in PAGES.items() if _read(DOCS / name) != page(kind)]
    if "--check" in arguments:
        for name in stale:
            print(f"stale: docs/{name}; run tools/python tools/reference.py")
        return 1 if stale else 0
    for name in stale:
        (DOCS / name).write_text(page(PAGES[name]))
        print(f"wrote docs/{name}")
    return 0


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def page(kind: CrdDefinition = FEDERATION) -> str:
    """A page as it should be."""
    used = (NEVER, AT_ONCE) if kind is MEMBER else CHANGES
    changes = [f"| {change} | {CHANGES[change]} |" for change in used]
    if kind is FEDERATION:
        changes.append(f"| {ONLY_GROWS} | it may grow, and never shrink |")
    tops = (reference.describe_spec(kind), reference.describe_status(kind))
    sections = [section for top in tops for section in _sections(top, kind)]
    head = "\n| a change counts | meaning |\n|---|---|\n"
    return NOTE + INTROS[kind] + head + "\n".join([*changes, "", *sections]).rstrip() + "\n"


def anchor(heading: str) -> str:
    """The name by which Markdown links to a heading."""
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def _sections(entry: ReferenceField, kind: CrdDefinition) -> Iterator[str]:
    """A section for the object and for each object below it."""
    level = "##" if "." not in entry.path else "###"
    yield f"{level} {entry.path}\n"
    yield f"{entry.description}\n"
    is_spec = entry.path.startswith("spec")
    rows = _spec_rows(entry, kind) if is_spec else _status_rows(entry, kind)
    yield "\n".join(rows) + "\n"
    for each in entry.fields:
        if each.fields and not _same_as(each, kind):
            yield from _sections(each, kind)


def _spec_rows(entry: ReferenceField, kind: CrdDefinition) -> Iterator[str]:
    yield "| field | type | what fits | default | a change counts | meaning |"
    yield "|---|---|---|---|---|---|"
    for each in entry.fields:
        default = "**required**" if each.is_required else _code(each.default)
        cells = [_name(each, kind), each.type, each.allowed, default, each.change, each.description]
        yield _row(cells)


def _status_rows(entry: ReferenceField, kind: CrdDefinition) -> Iterator[str]:
    yield "| field | type | values | meaning |"
    yield "|---|---|---|---|"
    for each in entry.fields:
        values = each.allowed if " or " in each.allowed and "string" in each.type else ""
        yield _row([_name(each, kind), each.type, values, each.description])


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _name(entry: ReferenceField, kind: CrdDefinition) -> str:
    if not entry.fields:
        return f"`{entry.name}`"
    return f"[`{entry.name}`](#{anchor(_same_as(entry, kind) or entry.path)})"


def _code(value: object) -> str:
    return "" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _same_as(entry: ReferenceField, kind: CrdDefinition) -> str:
    """The first object with the very same fields, which has a section already; empty: none."""
    tops = (reference.describe_spec(kind), reference.describe_status(kind))
    for other in (each for top in tops for each in reference.walk_fields(top)):
        if other.path == entry.path:
            return ""
        if other.fields and _properties(other, kind) == _properties(entry, kind):
            same_changes = [e.change for e in other.fields] == [e.change for e in entry.fields]
            if same_changes or not entry.change:
                return other.path
    return ""


def _properties(entry: ReferenceField, kind: CrdDefinition) -> object:
    top, *rest = entry.path.split(".")
    path: list[PathPart] = []
    for part in rest:
        path += [part.removesuffix("[]"), 0] if part.endswith("[]") else [part]
    node = find_field(flatten_schema(kind.spec if top == "spec" else kind.status), tuple(path))
    return node.get("items", node).get("properties")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
