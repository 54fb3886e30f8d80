"""The old name of `hansa_worlds`, importable for one release.

Every module below it is the very module of `hansa_worlds`, so that classes are the same whichever
name a package of yours still uses.
"""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import hansa_worlds

_OLD, _NEW = f"{__name__}.", "hansa_worlds."


class _SameModules(MetaPathFinder, Loader):
    """Finds `hansa_client.worlds.x` as `hansa_worlds.x`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.startswith(_OLD) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_NEW + spec.name.removeprefix(_OLD))
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just put the old name's there


warnings.warn(
    "hansa_client.worlds is hansa_worlds now; the old name goes with the next release",
    FutureWarning,  # Python shows a DeprecationWarning to tests only
    stacklevel=2,
)
sys.meta_path.insert(0, _SameModules())
sys.modules[__name__] = hansa_worlds
