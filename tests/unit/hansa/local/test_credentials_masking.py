"""Masking keys on this machine: each silo's clients get their own, and nothing starts without."""

from pathlib import Path
from typing import Any

import pytest

from hansa.api.spec import FederationSpec
from hansa.core.errors import InputError
from hansa.crypto import sealing
from hansa.local import credentials
from tests.support.builders import make_spec
from tests.support.masked_updates import masked

NAMES = ("a", "b", "c")


def made(folder: Path) -> FederationSpec:
    """A masked federation whose keys are in the folder."""
    fields: dict[str, Any] = masked(*NAMES)
    for silo in fields["environments"]:
        key = sealing.generate_opening_key()
        silo["maskingKey"] = key.public
        (folder / f"{silo['name']}.key").write_bytes(key.pem())
    return make_spec(**fields)


def test_each_silos_clients_get_the_file_of_their_own_key(tmp_path: Path) -> None:
    given = credentials.read_masking_keys(made(tmp_path), tmp_path)
    assert given == {name: {"HANSA_MASKING_KEY": str(tmp_path / f"{name}.key")} for name in NAMES}


def test_without_masks_nobody_gets_a_key(tmp_path: Path) -> None:
    assert credentials.read_masking_keys(make_spec(), tmp_path) == {}


def test_masks_without_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--masking-keys: got none, expected a folder .* a.key"):
        credentials.read_masking_keys(made(tmp_path), None)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    spec = made(tmp_path)
    (tmp_path / "b.key").unlink()
    with pytest.raises(InputError, match=r"--masking-keys: .*b.key: No such file"):
        credentials.read_masking_keys(spec, tmp_path)


def test_another_silos_key_is_refused(tmp_path: Path) -> None:
    spec = made(tmp_path)
    (tmp_path / "b.key").write_bytes((tmp_path / "c.key").read_bytes())
    with pytest.raises(InputError, match=r"b.key: got x25519:.*, expected that of maskingKey, x"):
        credentials.read_masking_keys(spec, tmp_path)


def test_a_silo_elsewhere_keeps_its_key_there(tmp_path: Path) -> None:
    spec = made(tmp_path)
    away = spec.environments[0].model_copy(update={"member": object()})
    spec = spec.model_copy(update={"environments": [away, *spec.environments[1:]]})
    (tmp_path / "a.key").unlink()
    assert credentials.read_masking_keys(spec, tmp_path).keys() == {"b", "c"}
