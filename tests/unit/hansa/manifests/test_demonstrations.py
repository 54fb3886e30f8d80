"""A manifest wants demonstrations only from worlds that can show them, or from a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansa.api.status import Federation
from hansa.cli.main import main
from hansa.cli.validate import list_notes
from hansa.core.errors import InputError
from hansa.manifests.load import build, check_worlds

WITHOUT = ("agentgym", "gymnasium", "proxy")
PACKAGE = """
from abc import ABC, abstractmethod

class World(ABC):
    def __init__(self, options): pass
    @abstractmethod
    def tasks(self, split): ...
    def expert(self): raise NotImplementedError

class Silent(World):
    def tasks(self, split): return []

class Showing(Silent):
    def expert(self): return "left"

class Lax(Showing):
    def __init__(self, options): self.options = options
    def check_options(self):
        if self.options:
            raise ValueError("; ".join(f"options.{name}: got it" for name in self.options))

def made(options): return Silent(options)
"""


def federation(*environments: dict[str, Any], **spec: Any) -> Federation:
    """A manifest as `hansa validate` builds it."""
    given = [{"name": f"e{i}", **each} for i, each in enumerate(environments)]
    return build(
        {
            "apiVersion": "hansa.dev/v1alpha1",
            "kind": "Federation",
            "metadata": {"name": "one"},
            "spec": {"environments": given, **spec},
        }
    )


def mixed(**part: Any) -> dict[str, Any]:
    """Several worlds, the second of which has no expert."""
    worlds = [{"name": "a", "world": "maze"}, {"name": "b", "world": "gymnasium", **part}]
    return {"world": "mixed", "options": {"worlds": worlds}}


@pytest.mark.parametrize(
    "environment, field, number, world, where",
    [
        *(({"world": world}, "spec.experience.demonstrations", 40, world, "") for world in WITHOUT),
        ({"world": "agentgym", "demonstrations": 5}, "{}.demonstrations", 5, "agentgym", ""),
        (mixed(), "spec.experience.demonstrations", 40, "gymnasium", ".options.worlds[1]"),
        (
            mixed(demonstrations=5),
            "{}.options.worlds[1].demonstrations",
            5,
            "gymnasium",
            ".options.worlds[1]",
        ),
        (
            {**mixed(), "demonstrations": 5},
            "{}.demonstrations",
            5,
            "gymnasium",
            ".options.worlds[1]",
        ),
    ],
)
def test_demonstrations_of_a_world_without_an_expert_are_refused_by_their_field(
    environment: dict[str, Any], field: str, number: int, world: str, where: str
) -> None:
    with pytest.raises(InputError) as caught:
        federation({"world": "maze"}, environment)
    whole = "spec.environments[1]"
    assert caught.value.message == (
        f"{field.format(whole)}: got {number}, but world {world} of {whole}{where} has no expert, "
        "expected 0 or a file in demonstrationsFrom"
    )
    assert caught.value.hint == (f"set {whole}{where}.demonstrations: 0, or its demonstrationsFrom")


def test_a_part_of_several_worlds_may_have_none() -> None:
    federation(mixed(demonstrations=0))


@pytest.mark.parametrize("arguments", [(), ("--cluster",)])
def test_validate_refuses_it_on_the_command_line(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = federation({"world": "agentgym", "demonstrations": 0}).to_json()
    del good["spec"]["environments"][0]["demonstrations"]
    (tmp_path / "one.yaml").write_text(json.dumps(good))
    with pytest.raises(SystemExit) as stop:
        main(["validate", str(tmp_path / "one.yaml"), *arguments])
    assert stop.value.code == 2
    assert "demonstrations: got 40, but world agentgym of" in capsys.readouterr().err


@pytest.mark.parametrize("world", WITHOUT)
@pytest.mark.parametrize(
    "own, shared",
    [
        pytest.param({}, {"demonstrations": 0}, id="none for all"),
        pytest.param({"demonstrations": 0}, {}, id="none for this one"),
        pytest.param({"demonstrationsFrom": "/a.jsonl"}, {}, id="a file of its own"),
        pytest.param({}, {"demonstrationsFrom": "/a.jsonl"}, id="a file for all"),
    ],
)
def test_without_an_expert_there_are_two_ways(
    world: str, own: dict[str, Any], shared: dict[str, Any]
) -> None:
    made = federation({"world": world, **own}, experience=shared)
    assert made.spec.environments[0].world == world


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with two worlds, installed as pip would leave it."""
    (tmp_path / "some_worlds.py").write_text(PACKAGE)
    info = tmp_path / "some_worlds-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-worlds\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[hansa.worlds]\nsilent = some_worlds:Silent\nshowing = some_worlds:Showing\n"
        "lax = some_worlds:Lax\nmade = some_worlds:made\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("package")
def test_an_installed_world_of_others_is_asked_itself() -> None:
    check_worlds(federation({"world": "showing"}))
    check_worlds(federation({"world": "silent", "demonstrations": 0}))
    with pytest.raises(InputError, match=r"demonstrations: got 40, but world silent of spec.env"):
        check_worlds(federation({"world": "silent"}))


@pytest.mark.usefixtures("package")
def test_all_wrong_options_are_said_also_where_the_world_did_not_finish_reading() -> None:
    check_worlds(federation({"world": "lax"}))
    given = {f"unknown{number}": number for number in range(30)}
    with pytest.raises(InputError) as caught:
        check_worlds(federation({"world": "lax", "options": given}))
    assert caught.value.message == "spec.environments[0]." + "; ".join(
        f"options.{name}: got it" for name in given
    )


@pytest.mark.usefixtures("package")
def test_a_world_that_is_no_class_is_refused_by_name() -> None:
    for own in ({}, {"demonstrations": 0}):
        with pytest.raises(
            InputError, match=r"^spec.environments\[0\].world: got 'made', but some_w"
        ):
            check_worlds(federation({"world": "made", **own}))


@pytest.mark.usefixtures("package")
def test_a_world_that_this_machine_does_not_know_passes_with_a_remark() -> None:
    remark = (
        "spec.environments[1]: this machine does not know world faraway; it needs an expert "
        "to show 40 demonstrations"
    )
    store = {"s3": {"bucket": "bucket"}}
    assert (
        list_notes(federation({"world": "maze"}, {"world": "faraway"}, storage=store))[0] == remark
    )
    for known in ({"world": "showing"}, {"world": "faraway", "demonstrations": 0}):
        assert not any("expert" in note for note in list_notes(federation(known, storage=store)))
