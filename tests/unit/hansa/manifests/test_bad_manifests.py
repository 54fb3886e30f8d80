"""Every bad manifest gives one sentence that names the field or the file, and what would fit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hansa.core.errors import InputError
from hansa.manifests.load import load_either
from tests.support.bad_manifests import BAD, GOOD, Bad, edited
from tests.support.commands import call

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
    "a tab behind spaces": (b"spec:\n  a: 1\n  \tb: 2\n", "line 3: got a tab in the indentation"),
    "tab for indentation": (b"spec:\n\trounds: 3\n", "line 2: got a tab in the indentation"),
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


def write(folder: Path, document: object) -> Path:
    file = folder / "federation.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def refusal(file: Path) -> str:
    with pytest.raises(InputError) as refused:
        load_either(file)
    assert "\n" not in refused.value.message
    return f"{refused.value.message} {refused.value.hint or ''}"


@pytest.mark.parametrize("bad", [bad for bad in BAD if not bad.only_on_a_cluster], ids=str)
def test_a_bad_field_is_named_with_what_came_and_what_fits(tmp_path: Path, bad: Bad) -> None:
    sentence = refusal(write(tmp_path, bad.manifest()))
    assert sentence.startswith(bad.said[0])
    assert all(part in sentence for part in bad.said)


@pytest.mark.parametrize("data, part", TEXTS.values(), ids=TEXTS.keys())
def test_a_bad_file_is_named_with_what_came(tmp_path: Path, data: bytes, part: str) -> None:
    file = tmp_path / "federation.yaml"
    file.write_bytes(data)
    sentence = refusal(file)
    assert sentence.startswith(str(file))
    assert part in sentence


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    assert "none.yaml: got no such file" in refusal(tmp_path / "none.yaml")
    assert "got a folder" in refusal(tmp_path)
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    assert "loop.yaml: got a file that cannot be read" in refusal(loop)
    if os.geteuid():  # root reads every file
        file = write(tmp_path, GOOD)
        file.chmod(0)
        assert "Permission denied" in refusal(file)


@pytest.mark.parametrize(
    "path, secret",
    [
        ("spec.storage.s3.credentialsSecret", "wJalrXUtnFEMI"),
        ("spec.storage.s3.endpoint", "ftp://me:hunter2@host"),
    ],
)
def test_a_value_that_could_be_a_secret_is_not_shown(
    tmp_path: Path, path: str, secret: str
) -> None:
    sentence = refusal(write(tmp_path, edited(path, secret)))
    assert sentence.startswith(f"{path}: got ")
    assert "wJalr" not in sentence and "hunter2" not in sentence


# By the commands


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_command_says_one_sentence_and_counts_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    wrong = {**GOOD["spec"], "rounds": 0, "seed": -1, "suspend": 3}
    file = write(tmp_path, {**GOOD, "spec": wrong})
    out = ["--out", str(tmp_path / "run")] if command == "run" else []
    code, printed, err = call(capsys, command, file, *out)
    assert (code, printed) == (2, "")
    sentence, _, hint = err.rstrip("\n").partition("\n\n")
    assert sentence.startswith("error: spec.rounds: got 0, expected a whole number from 1 to 10000")
    assert hint == "hint: and 2 more: spec.seed, spec.suspend"
    assert not (tmp_path / "run").exists()


def test_a_good_manifest_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "validate", write(tmp_path, GOOD))
    assert code == 0
    assert "valid, two-worlds has 2 environments" in out


@pytest.mark.slow
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
