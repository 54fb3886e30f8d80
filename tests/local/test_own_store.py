"""A run with a store of the user's own: named in the manifest, reached by a credentials file."""

import json

import pytest

from hansa.local.objectstore import LocalStore
from tests.support import small


@pytest.fixture(scope="module")
def finished(weed: LocalStore, tmp_path_factory):
    """A run of one round whose results are all in that store, and its credentials file."""
    folder = tmp_path_factory.mktemp("own")
    storage = small.storage(weed, weed.s3.endpoint or "", "own-store")
    manifest = small.write_manifest(folder, rounds=1, storage=storage)
    credentials = small.write_credentials(folder, weed)
    small.finish(manifest, folder / "run", "--credentials", credentials)
    return folder / "run", credentials


@pytest.mark.slow
def test_nothing_is_started_beside_the_users_store(finished):
    out, _ = finished
    assert not (out / "store").exists()
    assert (out / "adapter" / "adapter_model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("pull", "--round", "1"), ("report",), ("status", "--all", "-o", "json")],
    ids=lambda command: command[0],
)
def test_reading_commands_take_the_credentials_file(finished, command):
    out, credentials = finished
    done = small.hansa(command[0], out, *command[1:], "--credentials", credentials)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_without_it_the_sentence_says_that_credentials_are_missing(finished):
    out, _ = finished
    done = small.hansa("pull", out)
    assert done.returncode != 0
    assert "credentials" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_credentials_file_of_another_form_is_refused_without_repeating_it(finished, tmp_path):
    out, _ = finished
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"maze": "hunter2"}))
    done = small.hansa("pull", out, "--credentials", wrong)
    assert done.returncode == 2
    assert "--credentials" in done.stderr
    assert "hunter2" not in done.stderr
