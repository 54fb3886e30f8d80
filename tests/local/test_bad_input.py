"""Every bad field of a manifest gives one sentence that names it, exit code 2 and no traceback."""

import copy
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from hansa.cli.main import main
from tests.local.bad_fields import EDITS
from tests.local.edits import GOOD, Document, Edit, setter

WORLD_EDITS: dict[str, tuple[Edit, str, str]] = {
    "unknown world": (
        setter("spec.environments.0.world", "mase"),
        "spec.environments[0].world: got 'mase'",
        "did you mean maze?",
    ),
    "world option out of range": (
        setter("spec.environments.0.options", {"size": 9999}),
        "spec.environments[0].options.size: got 9999",
        "expected",
    ),
    "unknown world option": (
        setter("spec.environments.0.options", {"sise": 6}),
        "spec.environments[0].options.sise",
        "expected",
    ),
}


def refuse(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """Run the command, expect exit code 2, and return the sentence and the hint."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    captured = capsys.readouterr()
    assert stop.value.code == 2
    assert captured.out == ""
    sentence, _, hint = captured.err.rstrip("\n").partition("\n\n")
    assert sentence.startswith("error: ")
    assert "\n" not in sentence
    assert "Traceback" not in captured.err
    return sentence.removeprefix("error: "), hint


def commands() -> list[str]:
    """`hansa run` reads manifests by the same door as `hansa validate`."""
    return ["validate", "run"] if find_spec("hansa.cli.run") else ["validate"]


def arguments(command: str, file: Path, folder: Path) -> list[str]:
    return [command, str(file), *(["--out", str(folder / "run")] if command == "run" else [])]


def edited(tmp_path: Path, edit: Edit) -> Path:
    document = copy.deepcopy(GOOD)
    edit(document)
    file = tmp_path / "federation.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.mark.parametrize("edit, field, remedy", EDITS.values(), ids=EDITS.keys())
@pytest.mark.parametrize("command", commands())
def test_a_bad_field_is_named_with_its_remedy(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    edit: Edit,
    field: str,
    remedy: str,
) -> None:
    sentence, _ = refuse(capsys, *arguments(command, edited(tmp_path, edit), tmp_path))
    assert sentence.startswith(field) or field in sentence
    assert remedy in sentence


@pytest.mark.parametrize("edit, field, remedy", WORLD_EDITS.values(), ids=WORLD_EDITS.keys())
def test_a_world_is_asked_about_its_name_and_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Edit, field: str, remedy: str
) -> None:
    sentence, hint = refuse(capsys, "validate", str(edited(tmp_path, edit)))
    assert sentence.startswith(field)
    assert remedy in f"{sentence} {hint}"


def test_further_problems_are_counted_in_the_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def edit(document: Document) -> None:
        document["spec"] |= {"rounds": 0, "seed": -1, "suspend": 3}

    sentence, hint = refuse(capsys, "validate", str(edited(tmp_path, edit)))
    assert sentence.startswith("spec.rounds: ")
    assert hint == "hint: and 2 more: spec.seed, spec.suspend"


def test_a_value_that_could_be_a_secret_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit = setter("spec.storage.s3.credentialsSecret", "wJalrXUtnFEMI")
    sentence, hint = refuse(capsys, "validate", str(edited(tmp_path, edit)))
    assert sentence.startswith("spec.storage.s3.credentialsSecret: got text, expected a mapping")
    assert "wJalr" not in sentence + hint


def test_credentials_inside_an_endpoint_are_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit = setter("spec.storage.s3.endpoint", "ftp://me:hunter2@host")
    sentence, hint = refuse(capsys, "validate", str(edited(tmp_path, edit)))
    assert "hunter2" not in sentence + hint


def test_a_good_manifest_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["validate", str(edited(tmp_path, setter("spec.rounds", 3)))])
    assert stop.value.code == 0
    assert "valid, two-worlds has 2 environments" in capsys.readouterr().out
