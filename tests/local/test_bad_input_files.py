"""Every file that is no manifest gives one sentence that names it, exit code 2 and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.edits import setter
from tests.local.test_bad_input import arguments, commands, edited, refuse

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

TEXTS: dict[str, tuple[bytes, str]] = {
    # what is wrong: (bytes of the file, what the sentence holds)
    "empty file": (b"", "got an empty file"),
    "only comments": (b"# nothing yet\n", "got an empty file"),
    "10 MB file": (b"# " + b"x" * 10_000_000, "got more than 1 MB"),
    "binary file": (b"\x7fELF\x00\x01", "got binary data"),
    "not UTF-8": (b"kind: F\xe9d\xe9ration\n", "line 1: got bytes that are not UTF-8"),
    "control character": (b"kind: \x07\n", "expected printable text"),
    "not a mapping": (b"- a\n- b\n", "got a list"),
    "only text": (b"hello\n", "got 'hello'"),
    "broken YAML": (b"kind: [Federation\nspec: {", "line 2"),
    "tab for indentation": (b"spec:\n\trounds: 3\n", "line 2"),
    "duplicate key": (b"kind: A\nspec: {}\nkind: B\n", "line 3: got the key kind a second time"),
    "nested duplicate key": (b"spec:\n  seed: 1\n  seed: 2\n", "line 3: got the key seed"),
    "key that is a number": (b"1: x\n", "line 1: got the key '1'"),
    "key that is a list": (b"? [a]\n: x\n", "line 1: got the key a collection"),
    "several documents": (b"kind: A\n---\nkind: B\n", "got 2 documents"),
    "YAML bomb": (BOMB.encode(), "got more than 100,000 values"),
    "alias of itself": (b"a: &a [*a]\n", "got *a inside itself"),
    "unknown alias": (b"a: *b\n", "line 1"),
    "ten thousand brackets": (b"[" * 10_000, "got more than 64 levels"),
    "ten thousand nested blocks": (b"- " * 10_000, "got more than 64 levels"),
    "object of Python": (b"!!python/object/apply:os.system [id]\n", "got the tag"),
    "binary tag": (b"a: !!binary aGk=\n", "got the tag"),
    "not a number": (b"spec: {adapter: {dropout: .nan}}\n", "line 1: got .nan"),
    "infinity": (b"spec: {seed: 1.0e999}\n", "line 1: got 1.0e999"),
    "a number of 5000 digits": (b"spec: {seed: " + b"9" * 5000 + b"}\n", "5000 digits"),
    "half a character": (b'kind: "\\ud800"\n', "line 1"),
}


@pytest.mark.parametrize("data, part", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("command", commands())
def test_a_bad_file_is_named_with_what_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, data: bytes, part: str
) -> None:
    file = tmp_path / "federation.yaml"
    file.write_bytes(data)
    sentence, _ = refuse(capsys, *arguments(command, file, tmp_path))
    assert sentence.startswith(str(file))
    assert part in sentence


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence, _ = refuse(capsys, "validate", str(tmp_path / "none.yaml"))
    assert "none.yaml: got no such file" in sentence


def test_a_folder_is_no_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence, _ = refuse(capsys, "validate", str(tmp_path))
    assert "got a folder" in sentence


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    sentence, _ = refuse(capsys, "validate", str(loop))
    assert "loop.yaml: got a file that cannot be read" in sentence


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = edited(tmp_path, setter("spec.rounds", 3))
    file.chmod(0)
    sentence, _ = refuse(capsys, "validate", str(file))
    assert "Permission denied" in sentence


@pytest.mark.parametrize("name", ["empty file", "YAML bomb", "ten thousand brackets"])
def test_the_installed_program_refuses_in_the_same_way(tmp_path: Path, name: str) -> None:
    data, part = TEXTS[name]
    file = tmp_path / "federation.yaml"
    file.write_bytes(data)
    ended = subprocess.run(
        [sys.executable, "-m", "hansa.cli.main", "validate", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert part in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
