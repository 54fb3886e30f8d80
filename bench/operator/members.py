"""What a silo elsewhere adds to a round, and what both sides ask of the bucket.

    python bench/operator/members.py                # in one place
    python bench/operator/members.py --poll 2       # webshop by `hansa join`, asking every 2 s
    python bench/operator/members.py --poll 15

The same tiny federation of two worlds each time, as processes on this machine, with a bucket
behind a door that notes every request. The coordinator first waits for its silo, then three rounds
are played, then the silo waits for orders: both waits are counted, too.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from exchange import (
    Bucket,
    Recorder,
    counted,
    digests,
    hansa,
    keep,
    new_key,
    rounds,
    started,
    stop,
    write,
)

from hansa.manifests.load import load
from hansa.store.access_grants import AGGREGATOR
from tests.support.small import SPEC

REMOTE = "webshop"
LOCAL = "maze"
HOUR = 3600


def waited(recorder: Recorder, who: str, seconds: float) -> dict[str, float]:
    """Requests in an hour, by those of some seconds in which nothing happens."""
    start = time.time()
    time.sleep(seconds)
    found = counted(recorder.between(start, time.time(), who))
    return {kind: number * HOUR / seconds for kind, number in found.items()}


def played(recorder: Recorder, out: Path) -> dict[str, Any]:
    """Seconds of each round, and requests of all but the first."""
    seen = rounds(out)
    later = [(opened, closed) for number, opened, closed in seen if number > 1]
    requests = {
        who: counted([r for span in later for r in recorder.between(*span, who)])
        for who in (AGGREGATOR, LOCAL, REMOTE)
    }
    seconds = [round(closed - opened, 1) for _, opened, closed in seen]
    return {
        "seconds of each round": seconds,
        "median without the first": statistics.median(seconds[1:]),
        "requests of a round": {
            who: {kind: round(number / len(later), 1) for kind, number in each.items()}
            for who, each in requests.items()
        },
    }


def in_one_place(folder: Path, bucket: Bucket, spec: dict[str, Any]) -> dict[str, Any]:
    """Both worlds by `hansa run`."""
    manifest = write(folder / "federation.yaml", spec)
    keys = bucket.write_credentials(folder / "keys.json", AGGREGATOR, LOCAL, REMOTE)
    bucket.grant(load(manifest, here=False).spec)
    with Recorder(bucket) as recorder:
        spec["storage"]["s3"]["endpoint"] = recorder.endpoint
        write(manifest, spec)
        hansa("run", manifest, "--out", folder / "run", "--credentials", keys)
        return played(recorder, folder / "run")


def elsewhere(folder: Path, bucket: Bucket, spec: dict[str, Any], poll: int) -> dict[str, Any]:
    """One of the worlds by `hansa join`."""
    own = {name: folder / f"{name}.key" for name in ("coordinator", REMOTE)}
    public = {name: new_key(file) for name, file in own.items()}
    played_there = next(e for e in spec["environments"] if e["name"] == REMOTE)
    spec = {
        **spec,
        **digests(folder, spec),
        "exchange": {"publicKeys": [public["coordinator"]], "pollSeconds": poll},
        "environments": [
            *(e for e in spec["environments"] if e["name"] != REMOTE),
            {"name": REMOTE, "member": {"publicKeys": [public[REMOTE]]}},
        ],
    }
    manifest = write(folder / "federation.yaml", spec)
    bucket.grant(load(manifest, here=False).spec)
    with Recorder(bucket) as recorder:
        spec["storage"]["s3"]["endpoint"] = recorder.endpoint
        write(manifest, spec)
        signed = ("-f", manifest, "--key", own["coordinator"])
        (folder / "invitation.json").write_text(hansa("invite", REMOTE, *signed))
        asked = (folder / "invitation.json", "--key", own[REMOTE], "--world", REMOTE)
        member = yaml.safe_load(hansa("member", *asked))
        member["spec"] |= {"options": played_there["options"], "pollSeconds": poll}
        (folder / "member.yaml").write_text(yaml.safe_dump(member))
        return together(folder, bucket, recorder, own, poll)


def together(
    folder: Path, bucket: Bucket, recorder: Recorder, own: dict[str, Path], poll: int
) -> dict[str, Any]:
    """The coordinator waits, both play, the silo waits."""
    run, silo = folder / "run", folder / "silo"
    keys = bucket.write_credentials(folder / "keys.json", AGGREGATOR, LOCAL)
    coordinator = started(
        *("run", folder / "federation.yaml", "--out", run, "--credentials", keys),
        *("--signing-key", own["coordinator"]),
        log=folder / "run.log",
    )
    while not recorder.between(0, time.time() + 1, AGGREGATOR):
        time.sleep(0.1)
    time.sleep(10)  # it has started
    idle = 2 * max(poll, 15)
    coordinators = waited(recorder, AGGREGATOR, idle)
    their = bucket.write_credentials(folder / "silo.json", REMOTE)
    joined = started(
        *("join", folder / "member.yaml", "--out", silo, "--credentials", their),
        *("--key", own[REMOTE]),
        log=folder / "silo.log",
    )
    try:
        if coordinator.wait(400):
            raise SystemExit((folder / "run.log").read_text())
        time.sleep(poll + 5)  # the last letter has come
        silos = waited(recorder, REMOTE, idle)
    finally:
        stop(joined)
    reports = sorted(run.glob("jobs/bench-mail-a*/report.json"))
    return {
        **played(recorder, run),
        "requests of an hour of waiting": {AGGREGATOR: coordinators, REMOTE: silos},
        "couriers of the whole run": len(reports),
        "bytes of their largest report": max(file.stat().st_size for file in reports),
    }


def main() -> None:
    """Measure one way, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--poll", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hansa-members-") as name:
        folder = Path(name)
        with Bucket(folder / "store", [LOCAL, REMOTE], prefix="bench") as bucket:
            place = {"endpoint": bucket.s3.endpoint, "bucket": bucket.s3.bucket, "prefix": "bench"}
            spec = {**SPEC, "rounds": given.rounds, "storage": {"s3": place}}
            if given.poll:
                found = elsewhere(folder, bucket, spec, given.poll)
            else:
                found = in_one_place(folder, bucket, spec)
    keep(f"members-poll-{given.poll}" if given.poll else "members-one-place", found)


if __name__ == "__main__":
    main()
