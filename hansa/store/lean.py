"""Importing the S3 library without the part that writes its manuals: half of what it costs."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

_LIBRARY = "botocore"
_DOCS = f"{_LIBRARY}.docs"
_DOCSTRING = f"{_DOCS}.docstring"


class _Unwritten(str):
    """The text of a method's help, which no program asks for."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "_Unwritten":
        return super().__new__(cls)


@contextmanager
def without_manuals() -> Iterator[None]:
    """Within, the library finds empty manuals; whoever asks for the real ones later gets them."""
    library = importlib.util.find_spec(_LIBRARY)
    if library is None or library.origin is None or _DOCS in sys.modules:
        yield
        return
    docs, docstring = ModuleType(_DOCS), ModuleType(_DOCSTRING)
    docs.__path__ = [str(Path(library.origin).with_name("docs"))]  # small modules of it are used
    vars(docstring)["__getattr__"] = _unwritten
    sys.modules[_DOCS], sys.modules[_DOCSTRING] = docs, docstring
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.startswith(_DOCS)]:
            del sys.modules[name]


def _unwritten(name: str) -> type[_Unwritten]:
    if name.endswith("Docstring"):
        return _Unwritten
    raise AttributeError(name)
