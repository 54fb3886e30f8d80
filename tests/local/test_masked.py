"""Masked updates in whole runs: nobody reads one, and who drops out is left out of the sum."""

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hansa.api import bucket_keys
from hansa.local.objectstore import LocalStore
from hansa.store import claims
from hansa.store.claims import TOMBSTONE, Claim
from tests.local.masked import EVERYBODY, FIFTH, SILOS, WHERE, Place
from tests.support import small
from tests.support.processes import until

pytestmark = pytest.mark.slow

GONE = {"demonstrationsFrom": "s3://nowhere/shown.jsonl"}
"""What a silo cannot do its round with."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with (
        LocalStore(tmp_path / "exchange", EVERYBODY, prefix=small.NAME) as exchange,
        LocalStore(tmp_path / "private", EVERYBODY, prefix=WHERE) as private,
    ):
        made = Place(tmp_path, exchange, private)
        made.make_keys()
        yield made


@pytest.mark.attack(
    by="the coordinator",
    does="reads the bucket or the aggregator's disk for a masked update",
    result="finds none",
)
def test_nobody_reads_an_update_and_the_sum_is_that_of_all(place: Place) -> None:
    manifest, out = place.manifest(rounds=2), place.folder / "run"
    with small.Run(manifest, out, *place.options()) as run:
        run.wait_for_phase("train", round_=2)
        run.kill(signal.SIGKILL)
    small.finish(manifest, out, *place.options())
    for round_ in (1, 2):
        expected = place.sum_without_masks(round_, SILOS)
        found = place.merged(round_)
        assert all(np.array_equal(expected[name], found[name]) for name in expected)
    own = place.stretches()
    assert len(own) > len(SILOS)
    exchange = place.exchange.store()
    seen = [exchange.get(key) for key in exchange.list("")]
    seen += [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert not any(part in data for part in own for data in seen)
    for name in SILOS:
        assert place.updates(name) == [
            f"{round_:05d}/{file}"
            for round_ in (1, 2)
            for file in (bucket_keys.MANIFEST, "masked-0.bin")
        ]
    done = small.hansa("audit", out, "--credentials", place.credentials())
    assert done.returncode == 0, (done.stdout, done.stderr)


def test_a_silo_that_drops_out_is_left_out_and_the_others_mask_again(place: Place) -> None:
    silos = [place.silo(name, **(GONE if name == "d" else {})) for name in SILOS]
    manifest, out = place.manifest(*silos), place.folder / "run"
    with small.Run(manifest, out, *place.options()) as run:
        until(lambda: "MaskAgain" in run.events or run.process.poll(), "the others to mask again")
        run.kill(signal.SIGKILL)
    run = small.finish(manifest, out, *place.options())
    assert small.status(out)["history"][1]["updates"] == "3/4"
    assert "d dropped out; the other 3 silos mask their updates again" in run.events
    assert place.document(bucket_keys.claim(small.NAME, "d", 1, 0))["tombstone"] is True
    assert place.updates("d") == []
    expected, found = place.sum_without_masks(1, SILOS[:3]), place.merged(1)
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
    files = ["manifest-1.json", "manifest.json", "masked-0.bin", "masked-1.bin"]
    for name in SILOS[:3]:
        assert place.updates(name) == [f"00001/{file}" for file in files]
        log = (out / f"jobs/{small.NAME}-r1-{name}-a2/log.txt").read_text()
        assert "sending_masked epoch=1" in log and "explored" not in log
    done = small.hansa("audit", out, "--credentials", place.credentials())
    assert done.returncode == 0, (done.stdout, done.stderr)


def test_one_that_is_shut_out_while_it_masks_again_sends_nothing_and_is_left_out_too(
    place: Place,
) -> None:
    silos = [place.silo(name, **(GONE if name == "d" else {})) for name in EVERYBODY]
    manifest, out = place.manifest(*silos), place.folder / "run"
    claims.put_claim(place.exchange.store(), small.NAME, "c", 1, 1, TOMBSTONE)
    run = small.finish(manifest, out, *place.options())
    assert small.status(out)["history"][1]["updates"] == "3/5"
    assert run.events.count("MaskAgain") == 2
    assert "masked-1.bin" not in " ".join(place.updates("c"))
    expected, merged = place.sum_without_masks(1, ("a", "b", FIFTH)), place.merged(1)
    assert all(np.array_equal(expected[name], merged[name]) for name in expected)


@pytest.mark.parametrize(
    "case, why",
    [
        pytest.param("claimed", "d has claimed its place in the sum", id="after its claim"),
        pytest.param("fail", "aggregation.secure.onDropout is fail", id="where all must be there"),
    ],
)
def test_a_silo_that_may_not_be_left_out_fails_the_round(place: Place, case: str, why: str) -> None:
    silos = [place.silo(name, **(GONE if name == "d" else {})) for name in SILOS]
    secure = {"strategy": "ffa", "secure": {"onDropout": "fail" if case == "fail" else "remask"}}
    manifest, out = place.manifest(*silos, aggregation=secure), place.folder / "run"
    if case == "claimed":
        claims.put_claim(place.exchange.store(), small.NAME, "d", 1, 0, Claim(sha256="a" * 64))
    with small.Run(manifest, out, *place.options()) as run:
        assert run.wait() == 1
    assert why in run.said
    assert small.status(out)["history"][1]["outcome"] == "failed"
    assert all("masked-1.bin" not in file for name in SILOS for file in place.updates(name))
