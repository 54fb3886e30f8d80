"""Builtin things and those of packages are found by name, through one registry."""

from importlib.metadata import EntryPoint

import pytest

from hansa.core import entry_points
from hansa.core.entry_points import Builtin, Registry

GROUP = "hansa.tests"
REGISTRY = Registry(group=GROUP, builtin={"path": Builtin("pathlib:Path", "A path")})
OFFERED = [EntryPoint("path", "json:loads", GROUP), EntryPoint("dump", "json:dumps", GROUP)]


@pytest.fixture(autouse=True)
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_points, "entry_points", lambda group: OFFERED)


@pytest.mark.parametrize(
    "name, target, origin",
    [
        pytest.param("path", "pathlib:Path", "builtin", id="a builtin name is never replaced"),
        pytest.param("dump", "json:dumps", "package", id="one of a package"),
        pytest.param("other", None, "package", id="unknown"),
    ],
)
def test_a_name_is_found(name: str, target: str | None, origin: str) -> None:
    point = REGISTRY.find(name)
    assert (point.value if point else None) == target
    assert REGISTRY.find_origin(name) == origin


def test_all_names_are_listed_and_nothing_is_imported_before_it_is_loaded() -> None:
    assert REGISTRY.list_names() == ["dump", "path"]
    assert [point.value for point in REGISTRY.list_points().values()] == [
        "pathlib:Path",
        "json:dumps",
    ]
