"""`hansa keys`: a file that only its owner reads, and nothing secret where nobody asked for it."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from hansa.crypto import dsse, keys
from tests.support.commands import call


def test_a_new_key_is_readable_by_its_owner_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "silo.key"
    code, out, err = call(capsys, "keys", "new", file)
    assert code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    public, fingerprint = out.splitlines()
    key = dsse.read_key(file.read_bytes(), "file")
    assert (public, fingerprint) == (key.public, keys.fingerprint(key.public))
    assert "signs for whoever has it" in err
    assert "PRIVATE" not in out + err


def test_a_public_half_is_shown_as_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "silo.key"
    _, made, _ = call(capsys, "keys", "new", file)
    assert call(capsys, "keys", "show", file) == (0, made, "")
    public = made.splitlines()[0]
    assert call(capsys, "keys", "show", public) == (0, made, "")
    for output, parse in (("json", json.loads), ("yaml", yaml.safe_load)):
        _, out, _ = call(capsys, "keys", "show", file, "-o", output)
        assert parse(out) == {
            "publicKey": public,
            "fingerprint": keys.fingerprint(public),
            "keyid": keys.keyid(public),
        }


def test_a_key_is_never_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "silo.key"
    call(capsys, "keys", "new", file)
    before = file.read_bytes()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for taken in (file, link):
        code, out, err = call(capsys, "keys", "new", taken)
        assert (code, out) == (2, "")
        assert f"FILE: got {taken}, which exists, expected a new one" in err
    assert file.read_bytes() == before
    assert not (tmp_path / "elsewhere").exists()


def test_a_secret_is_a_manifest_with_the_private_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "silo.key"
    code, out, _ = call(capsys, "keys", "new", file, "-o", "secret")
    assert code == 0
    document = yaml.safe_load(out)
    assert (document["kind"], document["metadata"]) == ("Secret", {"name": "hansa-signing"})
    assert document["stringData"] == {"signing.key": file.read_text()}
    assert call(capsys, "keys", "show", file, "-o", "secret")[1] == out


def test_a_public_key_makes_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(
        capsys, "keys", "show", dsse.generate_signing_key().public, "-o", "secret"
    )
    assert (code, out) == (2, "")
    assert "--output: got secret for a public key" in err


def test_a_key_that_others_may_read_is_warned_of(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "silo.key"
    call(capsys, "keys", "new", file)
    file.chmod(0o640)
    code, _, err = call(capsys, "keys", "show", file)
    assert code == 0
    assert f"chmod 600 {file}" in err


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


def test_openssl_reads_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a plain PKCS8 file, which other tools make and read, too."""
    file = tmp_path / "silo.key"
    call(capsys, "keys", "new", file)
    try:
        shown = subprocess.run(
            ["openssl", "pkey", "-in", file, "-pubout", "-outform", "DER"], capture_output=True
        )
    except FileNotFoundError:
        pytest.skip("no openssl here")
    assert shown.returncode == 0, shown.stderr
    key = dsse.read_key(file.read_bytes(), "file")
    assert shown.stdout.endswith(keys.parse_public_key("ed25519", key.public))


def test_a_key_that_opens_updates_is_made_and_shown_as_one_that_signs_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "sealing.key"
    code, out, err = call(capsys, "keys", "new", file, "--sealing")
    assert code == 0 and file.stat().st_mode & 0o777 == 0o600
    public, fingerprint = out.splitlines()
    assert public.startswith("x25519:") and fingerprint == keys.fingerprint(public)
    assert "opens, for whoever has it, all that is sealed to it" in err
    for given in (file, public):
        assert call(capsys, "keys", "show", given)[1] == out
    secret = yaml.safe_load(call(capsys, "keys", "show", file, "-o", "secret")[1])
    assert secret["metadata"]["name"] == "hansa-sealing"
    assert secret["stringData"] == {"sealing.key": file.read_text()}


def test_a_masking_key_is_one_to_encrypt_to_under_a_name_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "maze.key"
    code, out, err = call(capsys, "keys", "new", file, "--masking")
    assert code == 0 and out.startswith("x25519:")
    assert "makes the masks of its silo's updates" in err
    assert call(capsys, "keys", "show", file)[1] == out
    secret = yaml.safe_load(call(capsys, "keys", "show", file, "--masking", "-o", "secret")[1])
    assert secret["metadata"]["name"] == "hansa-masking"
    assert secret["stringData"] == {"masking.key": file.read_text()}


def test_a_key_that_signs_masks_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "silo.key"
    call(capsys, "keys", "new", file)
    code, out, err = call(capsys, "keys", "show", file, "--masking", "-o", "secret")
    assert (code, out) == (2, "")
    assert "which signs, expected a masking key" in err
