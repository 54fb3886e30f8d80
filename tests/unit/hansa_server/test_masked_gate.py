"""What the gate refuses of masked updates: then there is no sum, and the round ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.bucket_documents import StartAdapter
from hansa.core.errors import PermanentError
from hansa_server.stream import TooFewMembers
from tests.unit.hansa_server import audited
from tests.unit.hansa_server.masking import KEYS, NAMES, MaskedRound, masked_round
from tests.unit.hansa_server.rounds import PREFIX


def refused(made: MaskedRound) -> Any:
    with pytest.raises(TooFewMembers) as caught:
        made.aggregate()
    assert not [key for key in made.store.objects if key.startswith(f"{PREFIX}/global/")]
    return caught.value.report.refused


@pytest.mark.parametrize(
    "changes, reason",
    [
        pytest.param({"masked": None}, "masked", id="no masks"),
        pytest.param({"files": {}}, "manifest-malformed", id="no body"),
        pytest.param({"trained": False}, "untrained", id="untrained"),
        pytest.param({"baseModel": "c" * 64}, "base-model", id="base model"),
        pytest.param({"round": 2}, "other-run", id="round"),
        pytest.param({"sealedTo": KEYS["maze"].public}, "sealed", id="sealed"),
    ],
)
def test_one_that_is_refused_ends_the_round_and_is_named(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    made = masked_round()
    made.commit("maze", made.body("maze"), **changes)
    assert refused(made) == [(1, reason)]
    found = audited.check(made.store, tmp_path)[1]
    assert found.verdict == "equal", (found.wrong, found.unknown)


@pytest.mark.parametrize("field, value", [("epoch", 1), ("peers", "a" * 64), ("bits", 9)])
def test_masks_for_other_silos_epochs_or_bits_are_refused(field: str, value: Any) -> None:
    made = masked_round()
    body = made.body("maze")
    said = manifest_of(made, "maze")["masked"]
    made.commit("maze", body, masked={**said, field: value})
    assert refused(made) == [(1, "masked")]


def test_another_weight_than_its_counts_give_is_refused() -> None:
    made = masked_round(aggregation={"strategy": "weighted-mean"})
    said = manifest_of(made, "maze")["masked"]
    made.commit("maze", made.body("maze"), masked={**said, "weight": 1024})
    assert refused(made) == [(1, "masked")]


def manifest_of(made: MaskedRound, name: str) -> Any:
    return json.loads(made.store.objects[made.key(name, bucket_keys.MANIFEST)])


@pytest.mark.parametrize(
    "spoil, reason",
    [
        pytest.param(lambda body: body[:-4], "size", id="short"),
        pytest.param(lambda body: body + bytes(4), "size", id="long"),
        pytest.param(lambda body: body.replace(b"up_proj", b"no_proj"), "shape", id="head"),
    ],
)
def test_a_body_that_is_not_of_the_adapters_shapes_is_refused(spoil: Any, reason: str) -> None:
    first = masked_round()
    digest = first.aggregate().adapter
    made = MaskedRound(number=2, start=StartAdapter(round=1, sha256=digest))
    made.store.objects.update({k: v for k, v in first.store.objects.items() if "/global/" in k})
    made.play()
    for name in NAMES:
        body = made.body(name)
        made.offer(name, spoil(body) if name == "maze" else body)
    with pytest.raises(TooFewMembers) as caught:
        made.aggregate()
    assert caught.value.report.refused == [(1, reason)]


@pytest.mark.parametrize(
    "lose, reason",
    [
        pytest.param(lambda objects, key: objects.pop(key), "file-missing", id="gone"),
        pytest.param(
            lambda objects, key: objects.update({key: audited.flipped(objects[key], 600)}),
            "sha256",
            id="changed",
        ),
    ],
)
def test_a_body_that_is_gone_or_changed_ends_the_round(lose: Any, reason: str) -> None:
    made = masked_round()
    lose(made.store.objects, made.key("maze", bucket_keys.masked_body(0)))
    assert refused(made) == [(1, reason)]


@pytest.mark.attack(
    by="a silo",
    does="puts more into a masked sum than one silo may",
    result="the round fails, and names nobody",
)
def test_a_sum_that_moved_too_far_ends_the_round_and_names_nobody() -> None:
    made = masked_round()
    body = bytearray(made.body("maze"))
    body[-1] ^= 0x40
    made.offer("maze", bytes(body))
    made.store.objects[bucket_keys.claim(PREFIX, "maze", 1, 0)] = b"{}"
    with pytest.raises(TooFewMembers, match="masked sum: its mean has a norm of") as caught:
        made.aggregate()
    assert caught.value.report.refused == []


def test_masks_with_another_key_make_a_sum_that_is_found_out() -> None:
    made = masked_round()
    own, KEYS["maze"] = KEYS["maze"], KEYS["babyai"]
    try:
        body = made.body("maze")
    finally:
        KEYS["maze"] = own
    made.offer("maze", body)
    with pytest.raises(TooFewMembers, match="masked sum"):
        made.aggregate()


def test_without_its_masks_an_update_is_refused_where_others_are_plain() -> None:
    made = masked_round()
    with pytest.raises(TooFewMembers) as caught:
        made.aggregate(masking=None)
    assert {reason for _, reason in caught.value.report.refused} == {"manifest-malformed"}


def test_half_of_the_settings_is_a_permanent_error() -> None:
    made = masked_round()
    settings = made.assignment().settings
    plain = settings.aggregation.model_copy(update={"secure": None})
    with pytest.raises(PermanentError, match=r"settings\.aggregation\.secure: got nothing"):
        made.aggregate(settings=settings.model_copy(update={"aggregation": plain}))
