"""A client that masks: its update stays in its own store, and what it sends is noise to others."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hansa.adapter import lora, masking
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, ClientReport
from hansa.api.bucket_documents import (
    StartAdapter,
    sha256,
)
from hansa.api.secure_aggregation import ENV_MASKING_KEY
from hansa.core import logs
from hansa.core.errors import Corrupt, PermanentError
from hansa.crypto.keys import format_public_key
from hansa.store import claims
from hansa.store.claims import TOMBSTONE, Claim
from hansa.store.staged import open_staged_store
from hansa_client import personalize
from hansa_client.round import play_round
from hansa_client.silo import Silo
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.masking import (
    BODY,
    CLAIM,
    KEYS,
    NAMES,
    PRIVATE,
    RECORD,
    Assign,
    Place,
    again,
    peers,
    secured,
)
from tests.unit.hansa_client.rounds import UPDATE, Killed


@pytest.fixture
def assignment(assign: Assign) -> Assignment:
    return secured(assign)


@pytest.fixture(scope="module")
def whole() -> Place:
    """An undisturbed round, made by the first test that needs it."""
    return Place()


@pytest.fixture
def played(whole: Place, assignment: Assignment) -> Place:
    if not whole.exchange.objects:
        whole.play(assignment)
    return whole.copy()


def test_the_update_stays_staged_and_a_claim_goes_before_its_body(assignment: Assignment) -> None:
    place, order = Place(), list[str]()
    place.before_put(order.append)
    report = place.play(assignment)
    files = [
        PRIVATE + name for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG, bucket_keys.MANIFEST)
    ]
    assert order[-7:] == [*files, RECORD, CLAIM, BODY, UPDATE + bucket_keys.MANIFEST]
    assert sorted(place.exchange.written) == sorted(
        ["run/evaluations/maze/00000.json", CLAIM, BODY, UPDATE + bucket_keys.MANIFEST]
    )
    stored = place.manifest()
    body = place.exchange.objects[BODY]
    assert stored.masked == masking.describe_masked(assignment, stored.counts)
    assert {n: e.sha256 for n, e in stored.files.items()} == {"masked-0.bin": sha256(body)}
    assert (stored.norm, report.norm, report.epoch) == (0.0, 0.0, 0)
    assert report.manifest == sha256(place.exchange.objects[UPDATE + bucket_keys.MANIFEST])
    assert (report.adapter, report.bytes) == (sha256(body), len(body))
    assert report.answers(assignment)


def test_it_is_the_same_update_as_without_masks_and_nobody_else_has_its_bytes(
    played: Place, assign: Assign
) -> None:
    plain = MemoryStore()
    fields = {"environments": list(NAMES), "environment": "maze"}
    play_round(Silo(assign(**fields), plain, plain, logs.get("client")))
    own = plain.objects[UPDATE + bucket_keys.ADAPTER]
    assert played.private.objects[PRIVATE + bucket_keys.ADAPTER] == own
    for array in lora.decode(own).values():
        if array.any():
            assert not any(array.tobytes()[:64] in d for d in played.exchange.objects.values())


def test_what_it_sends_cancels_with_what_the_others_send(
    played: Place, assignment: Assignment
) -> None:
    own = lora.decode(played.private.objects[PRIVATE + bucket_keys.ADAPTER])
    shapes = lora.shapes(own)
    start = lora.init_adapter(shapes, assignment.adapter.rank, assignment.seed)
    stored = played.manifest()
    head = len(played.exchange.objects[BODY]) - 4 * masking.count_values(shapes, sorted(shapes))
    total = np.frombuffer(played.exchange.objects[BODY], masking.WORD, offset=head).copy()
    for name in NAMES:
        if name != "maze":
            other = assignment.model_copy(update={"environment": name, "world": "any"})
            body = masking.mask_update(other, KEYS[name], start, start, 0.0, stored.counts)
            total += np.frombuffer(body, masking.WORD, offset=head)
    assert stored.masked
    mean = masking.dequantize(total, masking.UNIT, stored.masked.bits)
    norm = lora.distance(own, start)
    expected = np.concatenate([(own[n] - start[n]).reshape(-1) for n in sorted(own)])
    assert 0.1 < norm < 1.0  # it is not clipped
    assert np.abs(mean - expected).max() < 1e-7


@pytest.mark.parametrize(
    "at",
    [PRIVATE + bucket_keys.MANIFEST, RECORD, CLAIM, BODY, UPDATE + bucket_keys.MANIFEST],
    ids=["plain manifest", "record", "claim", "body", "manifest"],
)
def test_a_killed_client_goes_on_and_sends_the_same_bytes(
    played: Place, assignment: Assignment, at: str
) -> None:
    place = played.copy()
    for store in (place.exchange, place.private):
        gone = [RECORD, CLAIM, BODY, UPDATE + bucket_keys.MANIFEST]
        for key in gone if at != PRIVATE + bucket_keys.MANIFEST else [at, *gone]:
            store.objects.pop(key, None)

    def kill(key: str) -> None:
        if key == at:
            raise Killed

    place.before_put(kill)
    with pytest.raises(Killed):
        place.play(assignment)
    place.before_put(lambda key: None)
    place.play(assignment)
    for key in (CLAIM, BODY):
        assert place.exchange.objects[key] == played.exchange.objects[key]
    assert place.private.objects[RECORD] == played.private.objects[RECORD]
    assert place.manifest().files == played.manifest().files


def test_what_was_sent_is_reported_again_and_nothing_is_masked(
    played: Place, assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(masking, "mask_update", never)
    report = played.play(assignment)
    assert report.manifest == sha256(played.exchange.objects[UPDATE + bucket_keys.MANIFEST])
    assert played.exchange.written == played.private.written == []


def test_a_twin_that_was_faster_is_gone_on_with(played: Place, assignment: Assignment) -> None:
    place = played.copy()
    for key in (CLAIM, BODY, UPDATE + bucket_keys.MANIFEST):
        del place.exchange.objects[key]

    def twin(key: str) -> None:
        if key in played.exchange.objects:
            place.exchange.objects.setdefault(key, played.exchange.objects[key])

    place.exchange.before_put = twin
    assert place.play(assignment) == played.play(assignment)
    assert place.exchange.objects == played.exchange.objects


def test_masking_again_loads_no_torch_and_sends_other_bytes(
    played: Place, assignment: Assignment, tmp_path: Path
) -> None:
    stores = {
        name: {k: v.hex() for k, v in store.objects.items() if not k.endswith("zst")}
        for name, store in (("exchange", played.exchange), ("private", played.private))
    }
    (tmp_path / "objects.json").write_text(json.dumps(stores))
    (tmp_path / "masking.key").write_bytes(KEYS["maze"].pem())
    program = (
        "import json, os, sys\n"
        "from functools import partial\n"
        "from hansa.core import logs\n"
        "from hansa.api.assignment import decode_assignment\n"
        "from hansa.store.staged import open_staged_store, read_masking_keys\n"
        "from hansa_client.round import play_round\n"
        "from hansa_client.silo import Silo\n"
        "from tests.support.memory_store import MemoryStore\n"
        "found = json.load(open(sys.argv[1]))\n"
        "exchange, private = MemoryStore(), MemoryStore()\n"
        "exchange.objects = {k: bytes.fromhex(v) for k, v in found['exchange'].items()}\n"
        "private.objects = {k: bytes.fromhex(v) for k, v in found['private'].items()}\n"
        "assignment = decode_assignment(sys.argv[2])\n"
        "store = open_staged_store(exchange, private, assignment)\n"
        "opening = partial(read_masking_keys, os.environ)\n"
        "silo = Silo(assignment, store, private, logs.get('client'), masking_keys=opening)\n"
        "report = play_round(silo)\n"
        "heavy = {'torch', 'transformers', 'peft'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
        "print(json.dumps([report.model_dump_json(), exchange.written, private.written]))\n"
    )
    now = again(assignment, 1, "babyai", "maze", "wordle")
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "objects.json"), now.model_dump_json()],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env={
            "PATH": "",
            "PYTHONPATH": ":".join(sys.path),
            ENV_MASKING_KEY: f"{tmp_path}/masking.key",
        },
    )
    assert ended.returncode == 0, ended.stderr
    text, written, private = json.loads(ended.stdout)
    report = ClientReport.model_validate_json(text)
    assert (report.epoch, report.evaluation) == (1, None)
    assert list(report.seconds) == ["send"]
    assert report.answers(now)
    assert written == [
        "run/claims/maze/00001-1.json",
        UPDATE + "masked-1.bin",
        UPDATE + "manifest-1.json",
    ]
    assert private == [PRIVATE + "epoch-1.json"]
    assert report.adapter != sha256(played.exchange.objects[BODY])


@pytest.mark.attack(
    by="the coordinator",
    does="waits for a masked update that comes late, beside a sum without it",
    result="there is none: a silo that was shut out sends nothing",
)
def test_one_that_was_left_out_sends_nothing(played: Place, assignment: Assignment) -> None:
    sent = [CLAIM, BODY, UPDATE + bucket_keys.MANIFEST]
    for key in sent:
        del played.exchange.objects[key]
    claims.put_claim(played.exchange, "run", "maze", 1, 0, TOMBSTONE)
    before = dict(played.exchange.objects)
    with pytest.raises(PermanentError, match=r"00001-0\.json: this silo was left out of the sum"):
        played.play(assignment)
    assert played.exchange.objects == before


def test_a_claim_that_is_not_its_own_ends_it(played: Place, assignment: Assignment) -> None:
    for key in (CLAIM, BODY, UPDATE + bucket_keys.MANIFEST):
        del played.exchange.objects[key]
    claims.put_claim(played.exchange, "run", "maze", 1, 0, Claim(sha256="a" * 64))
    with pytest.raises(Corrupt, match="got another claim"):
        played.play(assignment)
    assert BODY not in played.exchange.objects


def test_it_masks_once_in_an_epoch_also_where_the_exchange_forgot_that(
    played: Place, assignment: Assignment
) -> None:
    for key in (CLAIM, BODY, UPDATE + bucket_keys.MANIFEST):
        del played.exchange.objects[key]
    with pytest.raises(PermanentError, match=r"masking\.peers: got others than those"):
        played.play(again(assignment, 0, "babyai", "maze", "wordle"))
    assert BODY not in played.exchange.objects and CLAIM not in played.exchange.objects


def test_a_manifest_of_other_masks_under_its_name_is_corrupt(
    played: Place, assignment: Assignment
) -> None:
    with pytest.raises(Corrupt, match="masked otherwise"):
        played.play(again(assignment, 0, "babyai", "maze", "wordle"))


def test_a_plain_update_that_was_changed_is_not_masked(
    played: Place, assignment: Assignment
) -> None:
    for key in (BODY, UPDATE + bucket_keys.MANIFEST):
        del played.exchange.objects[key]
    played.private.objects[PRIVATE + bucket_keys.ADAPTER] += b" "
    with pytest.raises(Corrupt, match="it was changed since"):
        played.play(assignment)


def test_a_peers_key_that_hides_nothing_ends_it_before_its_claim(
    played: Place, assignment: Assignment
) -> None:
    weak = {**peers("babyai", "maze"), "wordle": format_public_key("x25519", bytes(32))}
    masks = {"epoch": 1, "peers": weak}
    now = Assignment.model_validate(
        {**assignment.model_dump(), "evaluate": False, "masking": masks}
    )
    with pytest.raises(PermanentError, match="masking key of wordle"):
        played.play(now)
    assert played.exchange.written == []


def test_a_silo_finds_its_last_update_staged_when_it_chooses_what_to_serve(
    played: Place, assignment: Assignment
) -> None:
    last = assignment.model_copy(
        update={
            "role": "evaluate",
            "masking": None,
            "start": StartAdapter(round=1, sha256="a" * 64),
            "own_manifest": sha256(played.exchange.objects[UPDATE + bucket_keys.MANIFEST]),
        }
    )
    store = open_staged_store(played.exchange, played.private, last)
    own = personalize._read_own_update(Silo(last, store, played.private, logs.get("client")))
    assert own is not None
    assert lora.encode(own) == played.private.objects[PRIVATE + bucket_keys.ADAPTER]
