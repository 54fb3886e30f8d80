"""Who is given which keys in a run with stores of the user's own."""

import json
from pathlib import Path

import pytest

from hansa.core.errors import InputError
from hansa.local.credentials import read_credentials
from hansa.local.executor import LocalExecutor
from hansa.local.loop import RunOptions, choose_credentials
from hansa.runtime.capacity import Capacity
from hansa.store.experience import ENV_EXPERIENCE_KEY
from hansa.store.private import KEY, SECRET

PAIR = {"AWS_ACCESS_KEY_ID": "shared", "AWS_SECRET_ACCESS_KEY": "shared-secret"}
OWN = {KEY: "own", SECRET: "own-secret", ENV_EXPERIENCE_KEY: "maze.key"}


def test_a_file_has_both_identities_of_a_silo(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({"maze": {**PAIR, **OWN}, "aggregator": PAIR}))
    assert read_credentials(file)["maze"] == {**PAIR, **OWN}


@pytest.mark.parametrize("name", ["HANSA_EXPERIENCE_KEYS", "HANSA_ASSIGNMENT", "KEY"])
def test_a_variable_that_is_no_key_is_refused_without_repeating_its_value(
    tmp_path: Path, name: str
) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({"maze": {name: "hunter2"}}))
    with pytest.raises(InputError, match="HANSA_EXPERIENCE_AWS_") as refused:
        read_credentials(file)
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("given", ["aggregator", "default"])
def test_the_aggregator_never_gets_what_opens_a_private_store(given: str) -> None:
    options = RunOptions(credentials={given: {**PAIR, **OWN}})
    credentials = options.credentials or {}
    assert choose_credentials(credentials, "aggregator") == PAIR
    if given == "default":
        assert choose_credentials(credentials, "maze") == {**PAIR, **OWN}


@pytest.mark.parametrize("own_credentials", [True, False])
def test_no_job_inherits_the_users_keys_of_a_private_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_credentials: bool
) -> None:
    for name, value in {**PAIR, **OWN}.items():
        monkeypatch.setenv(name, value)
    capacity = Capacity(slots=1, gpus=[])
    executor = LocalExecutor(tmp_path, lambda name: {}, capacity, own_credentials=own_credentials)
    inherited = {name for name in executor._base if "AWS_" in name}
    assert not executor._base.keys() & OWN.keys()
    assert (inherited >= PAIR.keys()) is own_credentials
