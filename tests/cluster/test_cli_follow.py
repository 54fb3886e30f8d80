"""Commands that stay with a federation on a real apiserver: watch, wait, logs and pull."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hansa.adapter import model_card
from hansa.api import bucket_keys
from hansa.local.objectstore import RUNNER
from tests.cluster.cli import NAME, Typist, labels, make_job, manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


# -- watch, wait ----------------------------------------------------------------------------------


def test_watch_prints_lines_and_ends_well_with_the_federation(typist: Typist) -> None:
    typist.apply(manifest())
    with typist.start("watch", NAME) as watching:
        assert watching.stdout and "Pending" in watching.stdout.readline()
        typist.finish()
        out, err = watching.communicate(timeout=60)
    assert watching.returncode == 0, err
    assert "round 2: aggregated 2/2" in out
    assert "Succeeded: all rounds are done" in out
    assert f"hansa pull {NAME}" in err


def test_watch_ends_badly_when_the_federation_fails_or_is_deleted(typist: Typist) -> None:
    typist.apply(manifest())
    typist.advance({"maze": "failed"})
    failed = typist.hansa("watch", NAME)
    assert failed.code == 1
    assert "Round 1 failed: 1 of 2 environments answered" in failed.err
    assert "hansa retry" in failed.err
    typist.hansa("retry", NAME)
    with typist.start("watch", NAME) as watching:
        assert watching.stdout and watching.stdout.readline()
        assert typist.hansa("delete", NAME).code == 0
        _, err = watching.communicate(timeout=60)
    assert watching.returncode == 1
    assert "it was deleted" in err


def test_watch_outlives_a_restart_of_the_apiserver(typist: Typist) -> None:
    typist.apply(manifest())
    with typist.start("watch", NAME) as watching:
        assert watching.stdout and watching.stdout.readline()
        os.kill(int(typist.cluster.script("pid", "kube-apiserver").stdout), signal.SIGKILL)
        typist.cluster.until(lambda: typist.cluster.get("hfed", NAME), "the apiserver is back")
        typist.finish()
        out, err = watching.communicate(timeout=120)
    assert watching.returncode == 0, err
    assert "Succeeded" in out


def test_watch_redraws_the_screen_of_a_terminal(typist: Typist) -> None:
    typist.apply(manifest())
    typist.finish()
    leader, follower = pty.openpty()
    done = subprocess.run(
        typist.words("watch", NAME, "-n", typist.cluster.namespace),
        env=typist.environment(TERM="xterm-256color"),
        stdout=follower,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(follower)
    shown = os.read(leader, 100_000).decode()
    os.close(leader)
    assert done.returncode == 0
    assert "\x1b[" in shown and "Succeeded" in shown


def test_wait_returns_when_it_is_so_and_says_when_it_cannot_be(typist: Typist) -> None:
    typist.apply(manifest())
    late = typist.hansa("wait", NAME, "--timeout", "1s")
    assert late.code == 1
    assert "not succeeded within 1s: Pending" in late.err
    typist.advance({"wordle": "starting"})
    assert typist.hansa("wait", NAME, "--for", "round=1", "--timeout", "1s").code == 1
    with typist.start("wait", NAME, "--for", "round=1") as waiting:
        typist.advance({})
        out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (0, f"federation/{NAME} round=1 has ended\n")
    typist.finish()
    assert typist.hansa("wait", NAME).out == f"federation/{NAME} succeeded\n"
    never = typist.hansa("wait", NAME, "--for", "round=9")
    assert (never.code, "all its 2 rounds are done" in never.err) == (1, True)
    with typist.start("wait", NAME, "--for", "deleted") as waiting:
        typist.hansa("delete", NAME)
        assert waiting.wait(60) == 0
    assert typist.hansa("wait", NAME, "--for", "deleted").code == 0, "it is gone already"
    assert typist.hansa("wait", NAME, "--for", "sunshine").code == 2


# -- logs, pull -----------------------------------------------------------------------------------


def start_job(typist: Typist, environment: str, round_: int, attempt: int, *args: str) -> str:
    name = f"{NAME}-r{round_}-{environment}-a{attempt}"
    typist.cluster.apply(make_job(name, labels(environment, round_, attempt), *args))
    return name


def ended(typist: Typist, job: str) -> None:
    def is_over() -> bool:
        status = typist.cluster.get("job", job).get("status", {})
        return bool(status.get("succeeded") or status.get("failed"))

    typist.cluster.until(is_over, f"{job} ends")


def test_logs_come_in_the_order_of_the_rounds_and_can_be_chosen(typist: Typist) -> None:
    typist.apply(manifest())
    assert typist.hansa("logs", NAME).code == 2
    for environment, round_ in (("wordle", 2), ("aggregator", 1), ("maze", 1)):
        ended(typist, start_job(typist, environment, round_, 1, "say", f"{environment} {round_}"))
    assert typist.hansa("logs", NAME).out.splitlines() == [
        f"{NAME}-r1-maze-a1 | maze 1",
        f"{NAME}-r1-aggregator-a1 | aggregator 1",
        f"{NAME}-r2-wordle-a1 | wordle 2",
    ]
    chosen = {
        ("-e", "maze"): "maze 1",
        ("-e", "aggregator"): "aggregator 1",
        ("--round", "2"): "wordle 2",
    }
    for words, said in chosen.items():
        [line] = typist.hansa("logs", NAME, *words).out.splitlines()
        assert line.endswith(said)
    wrong = typist.hansa("logs", NAME, "-e", "mase")
    assert wrong.code == 2 and "expected one of maze" in wrong.err


def test_logs_follow_through_retries_and_rounds_until_the_end(typist: Typist) -> None:
    typist.apply(manifest())
    with typist.start("logs", NAME, "-f") as following:
        for round_, attempt in ((1, 1), (1, 2), (2, 1)):
            job = start_job(typist, "maze", round_, attempt, "say", f"{round_} {attempt}")
            ended(typist, job)
        typist.finish()
        out, err = following.communicate(timeout=60)
    assert following.returncode == 0, err
    assert [line.split(" | ")[1] for line in out.splitlines()] == ["1 1", "1 2", "2 1"]


@pytest.mark.slow
def test_pull_fetches_the_adapter_with_the_callers_credentials(
    typist: Typist, weed: Any, undisturbed: Path, fresh_prefix: str
) -> None:
    adapter = undisturbed / "adapter"
    store = weed.store()
    folder = bucket_keys.global_folder(fresh_prefix, 2)
    files = [file for file in adapter.iterdir() if file.name != model_card.NAME]
    for file in sorted(files, key=lambda f: f.name == bucket_keys.MANIFEST):
        store.put_if_absent(folder + file.name, file.read_bytes())
    store.close()
    place = {"endpoint": "http://minio.storage.invalid:9000", "bucket": weed.s3.bucket}
    typist.apply(manifest(storage={"s3": {**place, "prefix": fresh_prefix}}))
    early = typist.hansa("pull", NAME, "--to", "x")
    assert (early.code, "no round has made an adapter" in early.err) == (2, True)
    typist.finish()

    to = typist.folder / "adapter"
    lost = typist.hansa("pull", NAME, "--to", str(to))
    assert lost.code == 2
    assert "which this machine cannot resolve" in lost.err
    assert "kubectl port-forward -n storage service/minio 9000:9000" in lost.err

    mine = weed.credentials[RUNNER]
    variables = {"AWS_ACCESS_KEY_ID": mine.access_key, "AWS_SECRET_ACCESS_KEY": mine.secret_key}
    words = ("pull", NAME, "--to", str(to), "--endpoint", weed.s3.endpoint)
    done = typist.hansa(*words, **variables)
    assert (done.code, done.out) == (0, f"{to}\n"), done.err
    for file in files:
        assert (to / file.name).read_bytes() == file.read_bytes()
    assert NAME in (to / model_card.NAME).read_text()
    file = typist.folder / "credentials.json"
    file.write_text(json.dumps({"default": variables}))
    again = typist.hansa(*words, "--credentials", str(file), "-o", "json")
    assert json.loads(again.out)["round"] == 2
