"""YAML text to plain JSON data, safe against hostile files and precise about the line.

The stream of events is measured before any object is built: an alias that expands to a million
nodes, a loop, or ten thousand nested brackets are refused early.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from hansa.core.errors import InputError
from hansa.core.text import shorten

MAX_DEPTH = 64
MAX_NODES = 100_000

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_KINDS = ("str", "int", "float", "bool", "null", "map", "seq")
_PLAIN_TAGS = {None, "!", *(f"{_TAG}{kind}" for kind in _KINDS)}
_FLOAT = re.compile(r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$")


class _Loader(_BASE):  # type: ignore[misc]
    """Reads as kubectl does: a date is text, and 5e-5 is a number."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in pairs if tag != f"{_TAG}timestamp"]
    for first, pairs in _BASE.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+0123456789."))


@dataclass
class _Measure:
    """Size of the document with every alias expanded."""

    open: list[tuple[str, int]] = field(default_factory=list)
    """Anchor and size so far of each collection that is not closed yet."""
    sizes: dict[str, int] = field(default_factory=dict)
    total: int = 0


def parse(text: str, where: str) -> list[Any]:
    """The documents in the text that are not empty, as JSON data; `where` begins each error."""
    try:
        _measure(text, where)
        loader = _Loader(text)
        try:
            documents = []
            while loader.check_node():
                node = loader.get_node()
                _check_nodes(node, where)
                documents.append(loader.construct_document(node))
            return [data for data in documents if data is not None]
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise InputError(f"{where}: {_describe_error(error, text)}") from None
    except yaml.reader.ReaderError as error:
        raise InputError(
            f"{where}: got the character {error.character!r} at position {error.position}, "
            "expected printable text"
        ) from None
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{where}: got YAML that cannot be read ({shorten(error, 120)})") from None


def _describe_error(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    line = [*text.split("\n"), ""][mark.line] if mark else ""
    if mark and "\t" in line[: len(line) - len(line.lstrip())]:
        return f"line {mark.line + 1}: got a tab in the indentation, expected spaces"
    at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    context = f" {error.context}" if error.context else ""
    return f"{at}got no valid YAML ({shorten(error.problem or '', 120)}{context})"


def _measure(text: str, where: str) -> None:
    measure = _Measure()
    loader = _Loader(text)
    try:
        while loader.check_event():
            event = loader.get_event()
            at = f"{where}: line {event.start_mark.line + 1}"
            tag = getattr(event, "tag", None)
            if tag not in _PLAIN_TAGS:
                shown = shorten(tag, 120)
                raise InputError(f"{at}: got the tag {shown}, expected plain YAML without tags")
            _count(event, measure, at)
    finally:
        loader.dispose()


def _count(event: Any, measure: _Measure, at: str) -> None:
    if isinstance(event, yaml.DocumentStartEvent):
        measure.sizes.clear()  # anchors end with their document
    elif isinstance(event, yaml.AliasEvent):
        anchor = event.anchor or ""
        if anchor not in measure.sizes and any(name == anchor for name, _ in measure.open):
            raise InputError(f"{at}: got *{anchor[:40]} inside itself, expected no loops")
        _add(measure, measure.sizes.get(anchor, 1), at)
    elif isinstance(event, yaml.ScalarEvent):
        if event.anchor:
            measure.sizes[event.anchor] = 1
        _add(measure, 1, at)
    elif isinstance(event, yaml.CollectionStartEvent):
        # An anchor may be redefined: inside the new node, the old one is gone.
        measure.sizes.pop(event.anchor or "", None)
        measure.open.append((event.anchor or "", 0))
        _add(measure, 1, at)
        if len(measure.open) > MAX_DEPTH:
            raise InputError(f"{at}: got more than {MAX_DEPTH} levels, expected at most that many")
    elif isinstance(event, yaml.CollectionEndEvent):
        _close(measure)


def _add(measure: _Measure, nodes: int, at: str) -> None:
    measure.total += nodes
    if measure.open:
        anchor, size = measure.open[-1]
        measure.open[-1] = (anchor, size + nodes)
    if measure.total > MAX_NODES:
        raise InputError(
            f"{at}: got more than {MAX_NODES:,} values (aliases counted in full), "
            "expected at most that many"
        )


def _close(measure: _Measure) -> None:
    anchor, size = measure.open.pop()
    if anchor:
        measure.sizes[anchor] = size
    if measure.open:
        outer, total = measure.open[-1]
        measure.open[-1] = (outer, total + size)


def _check_nodes(root: Any, where: str) -> None:
    """Refuse what JSON cannot hold, while the line numbers are still known."""
    waiting, done = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        at = f"{where}: line {node.start_mark.line + 1}"
        if isinstance(node, yaml.MappingNode):
            _check_keys(node, where)
            waiting.extend(value for _, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        else:
            _check_scalar(node, at)


def _check_keys(node: Any, where: str) -> None:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.tag == f"{_TAG}merge":
            continue
        if not isinstance(key, yaml.ScalarNode) or key.tag != f"{_TAG}str":
            shown = f"'{shorten(key.value, 40)}'" if isinstance(key.value, str) else "a collection"
            raise InputError(f"{where}: line {line}: got the key {shown}, expected text in quotes")
        _check_scalar(key, f"{where}: line {line}")
        if key.value in lines:
            raise InputError(
                f"{where}: line {line}: got the key {shorten(key.value, 60)} a second time "
                f"(first at line {lines[key.value]}), expected it once"
            )
        lines[key.value] = line


def _check_scalar(node: Any, at: str) -> None:
    shown = shorten(node.value, 40).encode("ascii", "backslashreplace").decode()
    if node.tag == f"{_TAG}float" and not _is_finite(node.value):
        raise InputError(f"{at}: got {shown}, expected a finite number")
    if node.tag == f"{_TAG}int" and len(node.value) > 40:
        raise InputError(f"{at}: got a number of {len(node.value)} digits, expected at most 40")
    if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in node.value):
        raise InputError(f"{at}: got text with a character that cannot be stored ({shown})")


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text.replace("_", "")))
    except ValueError:
        return not text.lower().endswith((".inf", ".nan"))  # sexagesimals are finite
