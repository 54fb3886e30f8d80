"""`hansa keys`: a file that only its owner reads, and nothing secret where nobody asked for it."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from hansa.crypto import dsse, keys
from tests.support.commands import call


@pytest.fixture
def silo(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Path:
    """The file of a new key that signs."""
    file = tmp_path / "silo.key"
    assert call(capsys, "keys", "new", file)[0] == 0
    return file


@pytest.mark.parametrize(
    "use, options, prefix, power",
    [
        ("signing", [], "ed25519:", "signs for whoever has it"),
        ("sealing", ["--sealing"], "x25519:", "opens, for whoever has it, all that is sealed"),
        ("masking", ["--masking"], "x25519:", "makes the masks of its silo's updates"),
    ],
)
def test_a_key_is_its_owners_alone_and_shown_by_its_public_half_or_as_a_secret(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    use: str,
    options: list[str],
    prefix: str,
    power: str,
) -> None:
    file = tmp_path / "mine.key"
    code, out, err = call(capsys, "keys", "new", file, *options)
    assert (code, file.stat().st_mode & 0o777) == (0, 0o600)
    public, fingerprint = out.splitlines()
    assert public.startswith(prefix) and fingerprint == keys.fingerprint(public)
    assert power in err and "PRIVATE" not in out + err
    for given in (file, public):
        assert call(capsys, "keys", "show", given)[1] == out
    masks = options if use == "masking" else []
    printed = call(capsys, "keys", "show", file, *masks, "-o", "secret")[1]
    secret = yaml.safe_load(printed)
    assert (secret["kind"], secret["metadata"]) == ("Secret", {"name": f"hansa-{use}"})
    assert secret["stringData"] == {f"{use}.key": file.read_text()}
    again = tmp_path / "again.key"
    made = yaml.safe_load(call(capsys, "keys", "new", again, *options, "-o", "secret")[1])
    assert made["stringData"] == {f"{use}.key": again.read_text()}


def test_a_public_half_is_shown_as_data(capsys: pytest.CaptureFixture[str], silo: Path) -> None:
    public = dsse.read_key(silo.read_bytes(), "file").public
    expected = (0, f"{public}\n{keys.fingerprint(public)}\n", "")
    assert call(capsys, "keys", "show", silo) == call(capsys, "keys", "show", public) == expected
    for output, parse in (("json", json.loads), ("yaml", yaml.safe_load)):
        _, out, _ = call(capsys, "keys", "show", silo, "-o", output)
        assert parse(out) == {
            "publicKey": public,
            "fingerprint": keys.fingerprint(public),
            "keyid": keys.keyid(public),
        }


def test_a_key_is_never_overwritten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, silo: Path
) -> None:
    before = silo.read_bytes()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for taken in (silo, link):
        code, out, err = call(capsys, "keys", "new", taken)
        assert (code, out) == (2, "")
        assert f"FILE: got {taken}, which exists, expected a new one" in err
    assert silo.read_bytes() == before
    assert not (tmp_path / "elsewhere").exists()


def test_a_public_key_makes_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(
        capsys, "keys", "show", dsse.generate_signing_key().public, "-o", "secret"
    )
    assert (code, out) == (2, "")
    assert "--output: got secret for a public key" in err


def test_a_key_that_others_may_read_is_warned_of(
    capsys: pytest.CaptureFixture[str], silo: Path
) -> None:
    silo.chmod(0o640)
    code, _, err = call(capsys, "keys", "show", silo)
    assert code == 0
    assert f"chmod 600 {silo}" in err


@pytest.mark.parametrize(
    "verb, name, sentence",
    [
        pytest.param("show", "none", "No such file or directory", id="no file"),
        pytest.param("show", ".", "Is a directory", id="a folder"),
        pytest.param("show", "text", "got no private key that can sign", id="no key"),
        pytest.param("new", "none/silo.key", "No such file or directory", id="no folder for it"),
    ],
)
def test_a_file_that_does_not_fit_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str, name: str, sentence: str
) -> None:
    (tmp_path / "text").write_text("secret text")
    code, out, err = call(capsys, "keys", verb, tmp_path / name)
    assert (code, out) == (2, "")
    assert err.startswith("error: FILE: ")
    assert sentence in err
    assert "secret text" not in err


def test_a_public_key_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "keys", "show", "ed25519:abc")
    assert code == 2
    assert "public key: got 'ed25519:abc', expected ed25519: and 43 letters" in err


def test_openssl_reads_the_file(silo: Path) -> None:
    """It is a plain PKCS8 file, which other tools make and read, too."""
    command = ["openssl", "pkey", "-in", silo, "-pubout", "-outform", "DER"]
    try:
        shown = subprocess.run(command, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here")
    assert shown.returncode == 0, shown.stderr
    key = dsse.read_key(silo.read_bytes(), "file")
    assert shown.stdout.endswith(keys.parse_public_key("ed25519", key.public))


def test_a_key_that_signs_masks_nothing(capsys: pytest.CaptureFixture[str], silo: Path) -> None:
    code, out, err = call(capsys, "keys", "show", silo, "--masking", "-o", "secret")
    assert (code, out) == (2, "")
    assert "which signs, expected a masking key" in err
