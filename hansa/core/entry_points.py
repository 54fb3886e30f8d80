"""Entry points: builtin things and those of packages, found by name through one loader."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points


@dataclass(frozen=True)
class Builtin:
    """A line in a table of builtin things."""

    target: str
    """As in an entry point: `package.module:Name`."""
    about: str
    """What it is, in one clause."""


@dataclass(frozen=True, kw_only=True)
class Registry:
    """A group of entry points, and the builtin things that are found the same way."""

    group: str
    """Packages offer one by `mine = "my_package.module:Mine"` in this group."""
    builtin: Mapping[str, Builtin]

    def list_points(self) -> dict[str, EntryPoint]:
        """Everything by name, nothing imported; no package replaces a builtin name."""
        points = {name: self._make_point(name) for name in self.builtin}
        for point in entry_points(group=self.group):
            points.setdefault(point.name, point)
        return points

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
        return point.dist.name if point and point.dist else "package"

    def _make_point(self, name: str) -> EntryPoint:
        return EntryPoint(name, self.builtin[name].target, self.group)
