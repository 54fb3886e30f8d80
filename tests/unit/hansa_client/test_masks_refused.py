"""What a client does not mask, and where it has its key from."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.secure_aggregation import ENV_MASKING_KEY
from hansa.core.errors import PermanentError
from hansa.crypto import sealing
from hansa.store.staged import open_staged_store, read_masking_keys
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.masking import KEYS, Assign, Place, peers, secured
from tests.unit.hansa_client.rounds import UPDATE


def test_one_with_nothing_to_learn_claims_no_place_and_says_so(assign: Assign) -> None:
    place = Place()
    assignment = secured(
        assign, experience={"demonstrations": 0}, exploration={"tasksPerRound": 0}, evaluate=False
    )
    report = place.play(assignment)
    assert (report.trained, report.epoch, report.adapter) == (False, 0, "")
    assert list(place.exchange.objects) == [UPDATE + bucket_keys.MANIFEST]
    assert place.manifest().masked is None
    assert place.play(assignment) == report


@pytest.mark.parametrize(
    "changes, sentence",
    [
        pytest.param({"masking": None}, "masking: got nothing", id="no peers"),
        pytest.param({"aggregation": {}}, "secure: got nothing", id="no settings"),
        pytest.param(
            {"masking": {"peers": peers("maze", "wordle")}}, "expected 3 silos or more", id="two"
        ),
        pytest.param(
            {"masking": {"peers": peers("babyai", "webshop", "wordle")}},
            "got no key of maze",
            id="not among them",
        ),
        pytest.param(
            {"masking": {"peers": {**peers(), "wordle": KEYS["babyai"].public}}},
            "got 3 different keys of 4 silos",
            id="a key twice",
        ),
        pytest.param(
            {"masking": {"peers": {**peers(), "maze": sealing.generate_opening_key().public}}},
            "expected the public key of its masking key",
            id="another key",
        ),
        pytest.param(
            {
                "masking": {"epoch": 1, "peers": peers()},
                "aggregation": {"secure": {"onDropout": "fail"}},
            },
            "this silo masks once in a round",
            id="fail means once",
        ),
    ],
)
def test_what_would_hide_nothing_is_refused_before_anything_is_played(
    assign: Assign, changes: dict[str, Any], sentence: str
) -> None:
    place = Place()
    with pytest.raises(PermanentError, match=sentence):
        place.play(secured(assign, **changes))
    assert place.exchange.written == place.private.written == []


def test_without_a_store_of_its_own_nothing_is_masked(assign: Assign) -> None:
    assignment = secured(assign, experience_storage=None)
    with pytest.raises(PermanentError, match="this silo has no experienceStorage"):
        open_staged_store(MemoryStore(), MemoryStore(), assignment)


def test_the_key_is_read_from_the_file_that_the_variable_names(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r"HANSA_MASKING_KEY: got nothing.*maskingSecret"):
        read_masking_keys({})
    file = tmp_path / "masking.key"
    with pytest.raises(PermanentError, match="HANSA_MASKING_KEY: "):
        read_masking_keys({ENV_MASKING_KEY: str(file)})
    file.write_bytes(KEYS["wordle"].pem() + KEYS["maze"].pem())
    found = partial(read_masking_keys, {ENV_MASKING_KEY: str(file)})()
    assert [key.public for key in found] == [KEYS["wordle"].public, KEYS["maze"].public]


def test_its_own_update_is_measured_from_the_private_copy(assign: Assign) -> None:
    place = Place()
    report = place.play(secured(assign, evaluation={"tasks": 4, "ownUpdate": True}))
    assert report.own is not None and report.own.episodes == 4
    assert UPDATE + bucket_keys.ADAPTER not in place.exchange.objects
