"""Files of docs/results: compact JSON of the figures that pages show."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "docs/results"


def write(path: Path, document: dict[str, Any]) -> None:
    """Write each item of a list as one line of text, so that a diff shows which have changed."""
    parts = (f"{json.dumps(name)}: {_text(value)}" for name, value in document.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _text(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(map(_line, value)) + "\n]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
