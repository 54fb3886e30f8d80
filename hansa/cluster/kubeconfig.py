"""The kubeconfig: the files that $KUBECONFIG names, joined as kubectl joins them."""

import difflib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hansa.errors import InputError

Data = dict[str, Any]

SECTIONS = {"context": "contexts", "cluster": "clusters", "user": "users"}
FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
"""Fields that name a file, relative to the kubeconfig that has them."""


@dataclass(kw_only=True)
class Kubeconfig:
    """All entries by kind and name; of two with one name the first counts."""

    path: str
    """Where it was read, for messages."""
    current: str = ""
    """Context that counts when none is asked for."""
    entries: dict[str, dict[str, Data]] = field(default_factory=dict)
    """Contexts, clusters and users by name."""

    def entry(self, kind: str, name: str) -> Data:
        """One entry; a sentence with near names when there is none."""
        known = self.entries.get(kind, {})
        if name in known:
            return known[name]
        if kind == "context" and not name:
            raise InputError(
                f"kubeconfig: {self.path}: got no current-context",
                hint=f"--context NAME, one of: {', '.join(known) or '(there are none)'}",
            )
        near = difflib.get_close_matches(name, known, n=3) or sorted(known)[:5]
        raise InputError(
            f"kubeconfig: {self.path}: got {kind} {name!r}, which is not in it",
            hint=f"there is: {', '.join(near)}" if near else f"it has no {SECTIONS[kind]} at all",
        )


def read_kubeconfig(path: str | None = None) -> Kubeconfig | None:
    """What --kubeconfig, $KUBECONFIG or ~/.kube/config holds; None when there is no such file."""
    if path:
        return _join([_parse(Path(path).expanduser())], path)
    named = [Path(p) for p in os.environ.get("KUBECONFIG", "").split(os.pathsep) if p]
    candidates = named or [Path.home() / ".kube" / "config"]
    files = [file for file in candidates if file.is_file()]
    if named and not files:
        raise InputError(f"$KUBECONFIG: got {named[0]}, which is no file")
    if not files:
        return None
    return _join([_parse(file) for file in files], str(files[0]))


def _join(documents: list[Data], path: str) -> Kubeconfig:
    joined = Kubeconfig(path=path, entries={kind: {} for kind in SECTIONS})
    for document in documents:
        joined.current = joined.current or str(document.get("current-context") or "")
        for kind, section in SECTIONS.items():
            for entry in document.get(section) or ():
                joined.entries[kind].setdefault(str(entry.get("name")), entry.get(kind) or {})
    return joined


def _parse(path: Path) -> Data:
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise InputError(f"--kubeconfig: got {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise InputError(f"kubeconfig: {path}: got something else than YAML") from None
    if not isinstance(document, dict):
        raise InputError(f"kubeconfig: {path}: got no kubeconfig")
    for section in ("clusters", "users"):
        for entry in document.get(section) or ():
            _anchor(entry.get(section[:-1]) or {}, path.parent)
    return document


def _anchor(entry: Data, folder: Path) -> None:
    for name in FILES:
        if entry.get(name):
            entry[name] = str(folder / entry[name])
