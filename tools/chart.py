"""Files of the Helm chart that are made from others: the CRDs, the version, the table of values.

tools/python tools/chart.py            writes them
tools/python tools/chart.py --check    only says which are stale, and ends with 1 if one is
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hansa.cli.common import to_yaml
from hansa.manifests.crd import KINDS, build_crd
from hansa.version import __version__

CHART = Path(__file__).parents[1] / "charts" / "hansa"
BEGIN = "<!-- values: made by tools/chart.py from the comments of values.yaml -->"
END = "<!-- end of values -->"
_KEY = re.compile(r"^( *)([A-Za-z]+):")
_STEP = 2  # spaces of one level


class Value(NamedTuple):
    """One value that users may set."""

    path: str
    default: Any
    meaning: str


def main(arguments: list[str]) -> int:
    """Write or check every file; the exit says whether all are fresh."""
    stale = [file for file, text in made().items() if _read(file) != text]
    if "--check" in arguments:
        for file in stale:
            print(f"stale: {file.relative_to(CHART.parents[1])}; run tools/python tools/chart.py")
        return 1 if stale else 0
    for file in stale:
        file.write_text(made()[file])
        print(f"wrote {file.relative_to(CHART.parents[1])}")
    return 0


def made() -> dict[Path, str]:
    """What each file should hold."""
    readme, about = CHART / "README.md", CHART / "Chart.yaml"
    return {
        **{
            CHART / "files" / f"{kind.singular}-crd.yaml": to_yaml(build_crd(kind))
            for kind in KINDS
        },
        readme: _between(_read(readme), table(values(_read(CHART / "values.yaml")))),
        about: re.sub(r"(?m)^(version|appVersion): .*$", rf"\1: {__version__}", _read(about)),
    }


def values(text: str) -> list[Value]:
    """All values with the comment above each; a key without one is only a group of others."""
    data = yaml.safe_load(text)
    return [Value(path, _find(data, path), comment) for path, comment in _keys(text) if comment]


def undocumented(text: str) -> list[str]:
    """Leaves that neither have a comment nor belong to a key that has one."""
    data, known = yaml.safe_load(text), [value.path for value in values(text)]
    return [
        path
        for path, _ in _keys(text)
        if not isinstance(_find(data, path), dict)
        and not any(path == at or path.startswith(f"{at}.") for at in known)
    ]


def table(rows: list[Value]) -> str:
    """The values as Markdown."""
    lines = ["| value | default | meaning |", "|---|---|---|"]
    for row in rows:
        default = f"`{json.dumps(row.default)}`".replace("|", "\\|")
        lines.append(f"| `{row.path}` | {default} | {row.meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def _keys(text: str) -> Iterator[tuple[str, str]]:
    """Path and comment of every key that is written on a line of its own."""
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        found = _KEY.match(line)
        if found:
            path = [*path[: len(found[1]) // _STEP], found[2]]
            yield ".".join(path), " ".join(comment)
        comment = [*comment, bare[2:]] if bare.startswith("# ") else []


def _find(data: Any, path: str) -> Any:
    for key in path.split("."):
        data = data[key]
    return data


def _between(text: str, content: str) -> str:
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{content}\n{END}{rest.split(END)[1]}"


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
