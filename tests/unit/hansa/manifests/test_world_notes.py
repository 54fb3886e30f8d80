"""What a world of this machine cannot give a run is said before it begins."""

from pathlib import Path
from typing import Any

import pytest

from hansa.cli.validate import list_notes
from hansa.manifests.world_notes import find_world_notes
from tests.support import packages
from tests.support.builders import make_federation

PACKAGE = """
from hansa_worlds import Move, Observation, Task, World


class Pegs(World):
    name = "pegs"
    peg = "move right"

    def tasks(self, split):
        size = {"train": 18, "test": 8}.get(split, 4)
        return [Task(f"{split}-{n}", split, (str(n),)) for n in range(size)]

    def _begin(self, task):
        return "Move the disk."

    def _act(self, action):
        return Observation("Moved.", 1.0, True)

    def expert(self):
        return Move("It is the last disk.", self.peg)


class Words(Pegs):
    peg = "shove the zirconium disk to peg gamma"


class Broken(Pegs):
    def _begin(self, task):
        raise RuntimeError("no pegs today")
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"pegs": "Pegs", "words": "Words", "broken": "Broken"}
    packages.install(tmp_path, "peg_worlds", PACKAGE, {"hansa.worlds": names}, monkeypatch)


def find_notes(world: str, **spec: Any) -> list[str]:
    silo = {"name": "silo", "world": world, "credentialsSecret": {"name": "silo"}}
    experience = {"demonstrations": 18, "thoughts": False, **spec.pop("experience", {})}
    federation = make_federation(
        environments=[silo],
        experience=experience,
        **{"model": {"source": "builtin:tiny"}, "evaluation": {"tasks": 8}, **spec},
    )
    found = list(find_world_notes(federation.spec))
    assert set(found) <= set(list_notes(federation)), "hansa validate prints them"
    return found


def test_fewer_tasks_than_were_asked_for_are_counted_for_each_use() -> None:
    assert find_notes("pegs") == []
    assert find_notes(
        "pegs", experience={"demonstrations": 40}, evaluation={"tasks": 50, "validationTasks": 6}
    ) == [
        "spec.environments[0]: world pegs has fewer tasks than asked for: "
        "18 of 40 demonstrations, 8 of 50 evaluation tasks, 4 of 6 validation tasks"
    ]


def test_a_guard_asks_for_validation_tasks_too() -> None:
    [note] = find_notes("pegs", guard={"maxDrop": 0.1})
    assert note.endswith("fewer tasks than asked for: 4 of 8 validation tasks")


def test_words_that_the_model_can_never_write_are_named() -> None:
    [note] = find_notes("words")
    assert note.startswith(
        "spec.environments[0]: builtin:tiny has no token for 5 words in the expert's actions of "
        "world words (8 tasks tried), and can never write them: shove zirconium disk peg gamma; "
    )
    assert "set spec.model.source to a model that knows them" in note
    [note] = find_notes("pegs", experience={"thoughts": True})
    assert "can never write them: last disk;" in note, "with thoughts their words count, too"


def test_a_world_that_fails_while_it_is_looked_at_is_left_to_the_client() -> None:
    assert find_notes("broken") == []


def test_a_model_that_is_not_here_is_not_asked() -> None:
    assert find_notes("words", model={"source": "hf:some/model@0123456"}) == []
