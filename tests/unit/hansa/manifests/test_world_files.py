"""A world in a file beside the manifest: played and run on this machine, refused on a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import hansa
from hansa.api.worlds import WORLDS
from hansa.core.errors import InputError
from hansa.manifests import load
from hansa_worlds import make
from tests.support.commands import call

WORLD = '''"""A world of one move."""
from hansa_worlds import Move, Observation, Task, World


class Hanoi(World):
    """Move the disk to the right"""

    name = "hanoi"

    def __init__(self, options):
        read = self._read(options)
        self.disks = read.integer("disks", 1, 1, 9)
        if self.disks == 9:
            raise RuntimeError("nine are too heavy")
        read.finish()

    def tasks(self, split):
        return [Task(f"{split}-{n}", split, (str(n),)) for n in range(12)]

    def _begin(self, task):
        return "The goal is to your right."

    def _act(self, action):
        return Observation("Moved.", 1.0 / (action != "drop"), True)

    def expert(self):
        return Move("", "move right")


class Maze(Hanoi):
    pass
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(WORLDS.variable, "{}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hanoi.py").write_text(WORLD)
    return tmp_path


def make_document(world: str, **options: Any) -> dict[str, Any]:
    environments = [
        {"name": "maze", "world": "maze"},
        {"name": "own", "world": world, "options": options},
    ]
    spec = {"rounds": 1, "model": {"source": "builtin:tiny"}, "environments": environments}
    return {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": "own"},
        "spec": spec,
    }


def write_manifest(folder: Path, world: str, **options: Any) -> Path:
    file = folder / "federation.yaml"
    file.write_text(yaml.safe_dump(make_document(world, **options)))
    return file


def test_a_manifest_names_a_world_by_its_file(folder: Path) -> None:
    federation = load.load(write_manifest(folder, "./hanoi.py:Hanoi", disks=3))
    assert federation.spec.environments[1].world == "hanoi", "the name is that of the class"
    assert make("hanoi", {"disks": 3}).max_turns == 20
    assert WORLDS.find_origin("hanoi") == str(folder / "hanoi.py")
    assert load.load(folder / "federation.yaml").spec == federation.spec, "and so it is twice"


@pytest.mark.parametrize(
    "world, options, sentence",
    [
        ("../other.py:Hanoi", {}, "spec.environments[1].world: got '../other.py:Hanoi', expected"),
        ("/etc/other.py:Hanoi", {}, "a file below {folder} and a class in it, as ./hanoi.py:Hanoi"),
        ("./none.py:Hanoi", {}, "got './none.py:Hanoi', expected a file below {folder}"),
        ("./hanoi.py:Maze", {}, "there is a world maze already (builtin), expected a class of"),
        ("./hanoi.py:Pegs", {}, "cannot be loaded: ImportError: {folder}/hanoi.py has no class"),
        ("./hanoi.py:Hanoi", {"disks": 9}, "too heavy ({folder}/hanoi.py, line 14)"),
        ("./hanoi.py:Hanoi", {"disk": 3}, "spec.environments[1].options.disk: "),
        ("./broken.py:Pegs", {}, "NameError: name 'pegs' is not defined ({folder}/broken.py, line"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    folder: Path, world: str, options: dict[str, Any], sentence: str
) -> None:
    (folder / "broken.py").write_text("\nprint(pegs)\n")
    with pytest.raises(InputError) as caught:
        load.load(write_manifest(folder, world, **options))
    assert sentence.format(folder=folder) in caught.value.message


def test_no_cluster_takes_a_file(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        load.load(write_manifest(folder, "./hanoi.py:Hanoi"), here=False)
    assert caught.value.message == (
        "spec.environments[1].world: got './hanoi.py:Hanoi', a file of this machine, expected the "
        "name of a world in the client's image"
    )
    assert "hanoi" not in WORLDS.list_names()


def test_commands_take_a_file_and_name_the_line_of_a_bug(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = call(capsys, "play", "hanoi.py:Hanoi", "--as", "expert")
    assert code == 0 and "success after 1 turn" in out
    code, out, _ = call(capsys, "worlds", "./hanoi.py:Hanoi", "-o", "json")
    assert json.loads(out)[0]["from"] == f"{folder}/hanoi.py"
    (folder / "typed").write_text("drop\n")
    with (folder / "typed").open() as typed:
        monkeypatch.setattr("sys.stdin", typed)
        code, _, err = call(capsys, "play", "hanoi.py:Hanoi")
    assert (code, err.splitlines()[-1]) == (
        1,
        "error: world hanoi: ZeroDivisionError: float division by zero "
        f"({folder}/hanoi.py, line 24)",
    )


def test_a_run_from_python_takes_classes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    import hanoi  # type: ignore[import-not-found]

    document = make_document("towers", disks=99)
    with pytest.raises(InputError, match=r"options.disks: got 99"):
        hansa.run(document, worlds={"towers": hanoi.Hanoi})
    with pytest.raises(InputError, match="which is in no file"):
        hansa.run(document, worlds={"towers": int})
    script = "import hansa\nfrom hanoi import Hanoi as Other\nclass Own(Other): pass\n"
    (folder / "script.py").write_text(script + 'hansa.run({}, worlds={"own": Own})\n')
    with pytest.raises(InputError, match="starts a run while it is imported"):
        load.load(write_manifest(folder, "./script.py:Own"))
