"""Entry points: builtin things, those of packages and of files, found by name in one way."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Builtin:
    """A line in a table of builtin things."""

    target: str
    """As in an entry point: `package.module:Name`."""
    about: str
    """What it is, in one clause."""


class FilePoint(EntryPoint):
    """A class in a file, as `/folder/file.py:Class`, whose folder is imported from as well."""

    PREFIX = "hansa_file_"

    @property
    def module(self) -> str:
        """The name under which the file is imported."""
        return f"{self.PREFIX}{Path(self.value.rpartition(':')[0]).stem}"

    def load(self) -> Any:
        """The class; the file is run once in a process."""
        path, _, name = self.value.rpartition(":")
        module = sys.modules.get(self.module)
        if module is None or module.__file__ != path:
            spec = spec_from_file_location(self.module, path)
            if spec is None or spec.loader is None:
                raise ImportError(f"{path} is no Python file")
            module = sys.modules[self.module] = module_from_spec(spec)
            sys.path.append(str(Path(path).parent))
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[self.module]
                raise
        if not hasattr(module, name):
            raise ImportError(f"{path} has no class {name}")
        return getattr(module, name)


@dataclass(frozen=True, kw_only=True)
class Registry:
    """A group of entry points, and the builtin things that are found the same way."""

    group: str
    """Packages offer one by `mine = "my_package.module:Mine"` in this group."""
    builtin: Mapping[str, Builtin]
    variable: str = ""
    """Environment variable with those in files, as JSON; programs that are started inherit it."""

    def list_points(self) -> dict[str, EntryPoint]:
        """Everything by name, nothing imported; no package replaces a builtin name."""
        points = {name: self._make_point(name) for name in self.builtin}
        for point in entry_points(group=self.group):
            points.setdefault(point.name, point)
        for name, target in self._read_files().items():
            points.setdefault(name, FilePoint(name, target, self.group))
        return points

    def add_file(self, name: str, target: str) -> None:
        """Offer a class of a file here and in programs that this one starts."""
        os.environ[self.variable] = json.dumps({**self._read_files(), name: target})

    def _read_files(self) -> dict[str, str]:
        return dict(json.loads(os.environ.get(self.variable) or "{}")) if self.variable else {}

    def list_names(self) -> list[str]:
        """Every name, sorted."""
        return sorted(self.list_points())

    def find(self, name: str) -> EntryPoint | None:
        """The entry point of a name; the installed packages are read only for other names."""
        return self._make_point(name) if name in self.builtin else self.list_points().get(name)

    def find_origin(self, name: str) -> str:
        """Where a name comes from: builtin, or the package that offers it."""
        if name in self.builtin:
            return "builtin"
        point = self.find(name)
        if isinstance(point, FilePoint):
            return point.value.rpartition(":")[0]
        return point.dist.name if point and point.dist else "package"

    def _make_point(self, name: str) -> EntryPoint:
        return EntryPoint(name, self.builtin[name].target, self.group)
