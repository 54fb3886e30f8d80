"""A manifest on disk to a Federation, with one sentence for every mistake.

The order is that of a helpful reader: the file, the YAML, the kind of object, fields that nobody
knows, values that do not fit, and last what this machine lacks (a world, a model's folder).
"""

import difflib
import json
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hansa.api import constants
from hansa.api.probes import Probe
from hansa.api.status import Federation
from hansa.core.errors import InputError
from hansa.core.text import shorten
from hansa.manifests import demonstrations, plugins, remote_code
from hansa.validation import messages, yaml_reader
from hansa.validation.fit import fit as fit

if TYPE_CHECKING:
    from hansa.api.member_spec import MemberObject

_LONGEST_REFUSAL = 2000
"""Characters of what a world says of its options: all mistakes at once, but no whole file."""
MAX_BYTES = 1_000_000
STDIN = "-"
WORLDS = "hansa.worlds"
"""Entry-point group of worlds; the contract knows them only by this name."""
BUILTIN_MODELS = ("tiny",)


def load(path: Path | str, *, here: bool = True) -> Federation:
    """The federation in a file, or `-` for standard input; its status is ignored.

    `here` also checks what only this machine can tell: worlds, their options and model folders.
    """
    return _federation(read(path), _name(path), here=here)


def load_either(path: Path | str, *, here: bool = True) -> "Federation | MemberObject":
    """The federation or the silo in a file, whichever it is."""
    document = read(path, f"{constants.KIND} or {constants.MEMBER_KIND}")
    is_member = isinstance(document, dict) and document.get("kind") == constants.MEMBER_KIND
    return (_member if is_member else _federation)(document, _name(path), here=here)


def read(path: Path | str, what: str = "Federation") -> Any:
    """The one document in a file as it was written, not checked yet."""
    name = _name(path)
    return _one(yaml_reader.parse(_read(path, name), name), name, what)


def _name(path: Path | str) -> str:
    return "standard input" if str(path) == STDIN else str(path)


def build(document: Any, name: str = "the manifest") -> Federation:
    """The federation in a parsed document; all errors are InputErrors with a path."""
    _check_kind(document, name)
    given = {key: value for key, value in document.items() if key != "status"}
    federation = fit(Federation, given)
    demonstrations.check(federation.spec)
    return federation


def load_member(path: Path | str, *, here: bool = True) -> "MemberObject":
    """The silo in a file, or `-` for standard input, with what this machine can tell of it."""
    return _member(read(path, constants.MEMBER_KIND), _name(path), here=here)


def _federation(document: Any, name: str, *, here: bool) -> Federation:
    federation = build(document, name)
    if here:
        check_here(federation)
    return federation


def _member(document: Any, name: str, *, here: bool) -> "MemberObject":
    from hansa.api.member_spec import MemberObject

    _check_kind(document, name, constants.MEMBER_KIND)
    given = {key: value for key, value in document.items() if key != "status"}
    member = fit(MemberObject, given)
    worlds = installed_worlds()
    if here and worlds:
        _check_world(member.spec.world, member.spec.options, "spec", worlds)
    return member


# -- the file -------------------------------------------------------------------------------------


def _read(path: Path | str, name: str) -> str:
    try:
        data = _bytes(path)
    except FileNotFoundError:
        raise InputError(f"{name}: got no such file, expected a manifest in YAML") from None
    except IsADirectoryError:
        raise InputError(f"{name}: got a folder, expected a manifest in YAML") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{name}: got a file that cannot be read ({reason}), expected a manifest in YAML"
        ) from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{name}: got more than 1 MB, expected a manifest of at most that size")
    if b"\0" in data:
        raise InputError(f"{name}: got binary data, expected a manifest in YAML")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"{name}: line {line}: got bytes that are not UTF-8, expected text in UTF-8"
        ) from None


def _bytes(path: Path | str) -> bytes:
    if str(path) == STDIN:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with Path(path).open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _one(documents: list[Any], name: str, what: str) -> Any:
    if not documents:
        raise InputError(f"{name}: got an empty file, expected one {what}")
    if len(documents) > 1:
        raise InputError(f"{name}: got {len(documents)} documents, expected one {what}")
    return documents[0]


# -- the object -----------------------------------------------------------------------------------


def _check_kind(document: Any, name: str, kind: str = constants.KIND) -> None:
    if not isinstance(document, dict):
        raise InputError(
            f"{name}: got {messages.got(document)}, "
            "expected a mapping with apiVersion, kind, metadata and spec"
        )
    for field, fits in (("apiVersion", constants.API_VERSION), ("kind", kind)):
        came = messages.got(document[field]) if field in document else "nothing"
        if document.get(field) != fits:
            raise InputError(f"{field}: got {came}, expected {fits}")


# -- this machine ---------------------------------------------------------------------------------


def check_here(federation: Federation) -> None:
    """Refuse what this machine cannot do: unknown worlds, wrong options, missing models."""
    check_worlds(federation)
    plugins.check(federation.spec)
    check_model(federation)
    check_demonstrations(federation)


def check_worlds(federation: Federation) -> None:
    """Refuse unknown worlds and options they do not take; skipped where no world is installed."""
    worlds = installed_worlds()
    if not worlds:
        return
    for index, environment in enumerate(federation.spec.environments):
        where = f"spec.environments[{index}]"
        if environment.member:
            continue  # its own affair
        _check_world(environment.world, environment.options, where, worlds)
    for index, probe in enumerate(federation.spec.probes or ()):
        if probe.world:
            _check_probe(probe, f"spec.probes[{index}]", worlds)
    _check_experts(federation, worlds)


def _check_probe(probe: Probe, where: str, worlds: dict[str, EntryPoint]) -> None:
    made = _check_world(probe.world, probe.options, where, worlds)
    if made is not None and not getattr(made, "has_rules", False):
        raise InputError(
            f"{where}.options: got those of a world {probe.world} that counts no broken rules, "
            "expected low_wall of maze, rule of webshop, or what a world of yours has"
        )


def _check_world(
    world: str, options: dict[str, Any], where: str, worlds: dict[str, EntryPoint]
) -> Any:
    """The world, made for a moment; nothing where its package is not whole here."""
    if world not in worlds:
        near = difflib.get_close_matches(world, worlds, n=1)
        hint = f"did you mean {near[0]}?" if near else ""
        known = " or ".join(sorted(worlds))
        raise InputError(f"{where}.world: got '{world}', expected {known}", hint)
    return _check_options(worlds[world], options, where)


def installed_worlds() -> dict[str, EntryPoint]:
    """The worlds of all packages on this machine, none imported; no package replaces a builtin."""
    points = sorted(entry_points(group=WORLDS), key=plugins.is_ours)  # of equals, the last wins
    return {point.name: point for point in points}


def _check_experts(federation: Federation, worlds: dict[str, EntryPoint]) -> None:
    """Refuse demonstrations of a world without an expert; the builtin ones are known by name."""
    for each in demonstrations.wanted(federation.spec):
        if each.world in demonstrations.EXPERTS or each.world not in worlds:
            continue
        kind = _class_of(worlds[each.world], each.where)
        if kind is not None and not demonstrations.has_expert(kind):
            raise each.refuse()


def _class_of(point: EntryPoint, where: str) -> Any:
    """A world's class, or nothing: its package says itself what it lacks, where it runs."""
    try:
        kind = point.load()
    except ImportError:
        return None
    if not isinstance(kind, type):
        raise InputError(
            f"{where}.world: got '{point.name}', but {point.value} is no hansa_worlds.World"
        )
    return kind


def _check_options(point: EntryPoint, options: dict[str, Any], where: str) -> Any:
    kind = _class_of(point, where)
    if kind is None:
        return None
    try:
        made = kind(options)
        if hasattr(made, "check_options"):  # for a world that did not finish reading
            made.check_options()
        return made
    except Exception as error:  # a world of any package may refuse in its own way
        text = shorten(error, _LONGEST_REFUSAL)
        named = text.startswith(("options", "world: "))
        path = f"{where}.{text}" if named else f"{where}.options: {text}"
        raise InputError(path) from error


def check_model(federation: Federation) -> None:
    """Refuse a model that is not there, before anything is started."""
    source = federation.spec.model.source
    kind, _, rest = source.partition(":")
    if kind == "builtin" and rest not in BUILTIN_MODELS:
        known = " or ".join(f"builtin:{name}" for name in BUILTIN_MODELS)
        raise InputError(f"spec.model.source: got '{source}', expected {known}")
    if kind != "path":
        return
    problem = _folder_problem(Path(rest))
    if problem:
        raise InputError(
            f"spec.model.source: got {messages.got(source)}, "
            f"expected the folder of a Hugging Face model ({problem})"
        )


def check_demonstrations(federation: Federation) -> None:
    """Refuse a file of demonstrations that is not there; one in a bucket is the client's affair."""
    spec = federation.spec
    shared = spec.experience.demonstrations_from
    _check_file("spec.experience.demonstrationsFrom", shared, has_store=spec.storage is not None)
    for index, environment in enumerate(spec.environments):
        where = f"spec.environments[{index}].demonstrationsFrom"
        has_store = spec.private_storage(environment.name) is not None
        _check_file(where, environment.demonstrations_from, has_store=has_store)


def _check_file(where: str, source: str | None, *, has_store: bool) -> None:
    problem = ""
    if source and source.startswith("s3://"):
        problem = "" if has_store else "spec.storage is absent, so the run's own store is empty"
    elif source and not Path(source.removeprefix("path:")).expanduser().is_file():
        problem = "there is no such file"
    if problem:
        fits = "the path of a file in AgentGym's format"
        raise InputError(f"{where}: got {messages.got(source)}, expected {fits} ({problem})")


def _folder_problem(folder: Path) -> str:
    config = folder / "config.json"
    try:
        if not folder.is_dir():
            return "there is no such folder"
        if not config.is_file():
            return "it has no config.json"
        if not isinstance(json.loads(config.read_bytes()), dict):
            return "its config.json is no JSON object"
        if not any(folder.glob("*.safetensors")):
            return "it has no .safetensors file"
        return remote_code.asked_for(folder)
    except (OSError, ValueError) as error:
        return "its config.json cannot be read" if isinstance(error, ValueError) else str(error)
    return ""
