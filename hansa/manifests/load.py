"""A manifest on disk to a Federation, with one sentence for every mistake.

Checked in this order: the file, the YAML, the kind of object, fields that nobody
knows, values that do not fit, and last what this machine lacks (a world, a model's folder).
"""

import difflib
import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hansa.api import constants
from hansa.api.probes import Probe
from hansa.api.status import Federation
from hansa.api.worlds import BUILTIN, WORLDS
from hansa.core.entry_points import FilePoint
from hansa.core.errors import InputError, describe_bug
from hansa.core.text import shorten
from hansa.manifests import demonstrations, plugins, remote_code, world_files
from hansa.validation import messages, yaml_reader
from hansa.validation.fit import validate_model as validate_model

if TYPE_CHECKING:
    from hansa.api.member_spec import MemberObject

_LONGEST_REFUSAL = 2000
"""Characters of what a world says of its options: all mistakes at once, but no whole file."""
MAX_BYTES = 1_000_000
STDIN = "-"
BUILTIN_MODELS = ("tiny",)


def load(path: Path | str, *, here: bool = True) -> Federation:
    """The federation in a file, or `-` for standard input; its status is ignored.

    `here` also checks what only this machine can tell: worlds, their options and model folders.
    """
    return _build_federation(read(path), path, here=here)


def load_either(path: Path | str, *, here: bool = True) -> "Federation | MemberObject":
    """The federation or the silo in a file, whichever it is."""
    document = read(path, f"{constants.KIND} or {constants.MEMBER_KIND}")
    is_member = isinstance(document, dict) and document.get("kind") == constants.MEMBER_KIND
    return (_build_member if is_member else _build_federation)(document, path, here=here)


def read(path: Path | str, what: str = "Federation") -> Any:
    """The one document in a file as it was written, not checked yet."""
    name = _name_source(path)
    documents = yaml_reader.parse(_read_text(path, name), name)
    if len(documents) != 1:
        came = f"{len(documents)} documents" if documents else "an empty file"
        raise InputError(f"{name}: got {came}, expected one {what}")
    return documents[0]


def _name_source(path: Path | str) -> str:
    return "standard input" if str(path) == STDIN else str(path)


def build(document: Any, name: str = "the manifest") -> Federation:
    """The federation in a parsed document; all errors are InputErrors with a path."""
    world_files.refuse_files(document)
    federation = validate_model(Federation, _require_kind(document, name, constants.KIND))
    demonstrations.check(federation.spec)
    return federation


def load_member(path: Path | str, *, here: bool = True) -> "MemberObject":
    """The silo in a file, or `-` for standard input, with what this machine can tell of it."""
    return _build_member(read(path, constants.MEMBER_KIND), path, here=here)


def _build_federation(document: Any, path: Path | str, *, here: bool) -> Federation:
    if here:
        world_files.offer_files(document, _find_folder(path))
    federation = build(document, _name_source(path))
    if here:
        check_on_machine(federation)
    return federation


def _find_folder(path: Path | str) -> Path:
    """The folder of a manifest, below which its worlds' files are."""
    return Path.cwd() if str(path) == STDIN else Path(path).parent


def _build_member(document: Any, path: Path | str, *, here: bool) -> "MemberObject":
    from hansa.api.member_spec import MemberObject

    if here:
        world_files.offer_files(document, _find_folder(path))
    world_files.refuse_files(document)
    named = _require_kind(document, _name_source(path), constants.MEMBER_KIND)
    member = validate_model(MemberObject, named)
    worlds = WORLDS.list_points()
    if here and worlds:
        _check_world(member.spec.world, member.spec.options, "spec", worlds)
    return member


# -- the file -------------------------------------------------------------------------------------


def _read_text(path: Path | str, name: str) -> str:
    try:
        data = _read_bytes(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        came = f"a file that cannot be read ({reason})"
        if isinstance(error, FileNotFoundError | IsADirectoryError):
            came = "a folder" if isinstance(error, IsADirectoryError) else "no such file"
        raise InputError(f"{name}: got {came}, expected a manifest in YAML") from None
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


def _read_bytes(path: Path | str) -> bytes:
    if str(path) == STDIN:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with Path(path).open("rb") as file:
        return file.read(MAX_BYTES + 1)


# -- the object -----------------------------------------------------------------------------------


def _require_kind(document: Any, name: str, kind: str) -> dict[str, Any]:
    """The fields of an object of this kind that users write."""
    if not isinstance(document, dict):
        raise InputError(
            f"{name}: got {messages.describe_value(document)}, "
            "expected a mapping with apiVersion, kind, metadata and spec"
        )
    for field, fits in (("apiVersion", constants.API_VERSION), ("kind", kind)):
        came = messages.describe_value(document[field]) if field in document else "nothing"
        if document.get(field) != fits:
            raise InputError(f"{field}: got {came}, expected {fits}")
    return {key: value for key, value in document.items() if key != "status"}


# -- this machine ---------------------------------------------------------------------------------


def check_on_machine(federation: Federation) -> None:
    """Refuse what this machine cannot do: unknown worlds, wrong options, missing models."""
    check_worlds(federation)
    plugins.check(federation.spec)
    check_model(federation)
    check_demonstrations(federation)


def check_worlds(federation: Federation) -> None:
    """Refuse unknown worlds and options they do not take."""
    worlds = WORLDS.list_points()
    for index, environment in enumerate(federation.spec.environments):
        where = f"spec.environments[{index}]"
        if environment.member:
            continue  # its owner's manifest names the world
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
    """The world, made for the check; None where its package cannot be imported here."""
    if world not in worlds:
        near = difflib.get_close_matches(world, worlds, n=1)
        hint = f"did you mean {near[0]}?" if near else ""
        known = " or ".join(sorted(worlds))
        raise InputError(f"{where}.world: got '{world}', expected {known}", hint)
    return _check_options(worlds[world], options, where)


def _check_experts(federation: Federation, worlds: dict[str, EntryPoint]) -> None:
    """Refuse demonstrations of a world without an expert; the builtin ones are known by name."""
    for each in demonstrations.list_required(federation.spec):
        if each.world in BUILTIN or each.world not in worlds:
            continue
        kind = _load_class(worlds[each.world], each.where)
        if kind is not None and not demonstrations.has_expert(kind):
            raise each.refuse()


def _load_class(point: EntryPoint, where: str) -> Any:
    """A world's class, or None where its package cannot be imported: the client reports why."""
    try:
        kind = point.load()
    except Exception as error:
        if isinstance(error, ImportError) and not isinstance(point, FilePoint):
            return None
        raise InputError(
            f"{where}.world: {point.value} cannot be loaded: {describe_bug(error)}"
        ) from error
    if not isinstance(kind, type):
        raise InputError(
            f"{where}.world: got '{point.name}', but {point.value} is no hansa_worlds.World"
        )
    return kind


def _check_options(point: EntryPoint, options: dict[str, Any], where: str) -> Any:
    kind = _load_class(point, where)
    if kind is None:
        return None
    try:
        made = kind(options)
        if hasattr(made, "check_options"):  # some worlds read options late
            made.check_options()
        return made
    except Exception as error:  # a world of any package may refuse in its own way
        text = shorten(error, _LONGEST_REFUSAL)
        if text.startswith(("options", "world: ")):
            raise InputError(f"{where}.{text}") from error
        raise InputError(f"{where}.options: world {point.name}: {describe_bug(error)}") from error


def check_model(federation: Federation) -> None:
    """Refuse a model that does not exist, before anything is started."""
    source = federation.spec.model.source
    kind, _, rest = source.partition(":")
    if kind == "builtin" and rest not in BUILTIN_MODELS:
        known = " or ".join(f"builtin:{name}" for name in BUILTIN_MODELS)
        raise InputError(f"spec.model.source: got '{source}', expected {known}")
    if kind != "path":
        return
    problem = _find_folder_problem(Path(rest))
    if problem:
        raise InputError(
            f"spec.model.source: got {messages.describe_value(source)}, "
            f"expected the folder of a Hugging Face model ({problem})"
        )


def check_demonstrations(federation: Federation) -> None:
    """Refuse a file of demonstrations that is not there; the client checks one in a bucket."""
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
        raise InputError(
            f"{where}: got {messages.describe_value(source)}, expected {fits} ({problem})"
        )


def _find_folder_problem(folder: Path) -> str:
    config = folder / "config.json"
    try:
        if not folder.is_dir():
            return "there is no such folder"
        if not config.is_file():
            return "it has no config.json"
        if not isinstance(json.loads(config.read_bytes()), dict):
            return "its config.json is not a JSON object"
        if not any(folder.glob("*.safetensors")):
            return "it has no .safetensors file"
        return remote_code.find_remote_code(folder)
    except (OSError, ValueError) as error:
        return "its config.json cannot be read" if isinstance(error, ValueError) else str(error)
