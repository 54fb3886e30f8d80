"""`hansa run` as people use it: watched, stopped, started again, grown, and asked for results."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hansa.api.bucket_documents import sha256
from hansa.store.s3 import ENV_PATIENCE
from tests.support import processes, small
from tests.support.processes import until
from tests.support.small import hansa

pytestmark = pytest.mark.slow


def read_status(out: Path, *more: str) -> dict[str, Any]:
    printed = hansa("status", out, "-o", "json", *more)
    assert printed.returncode == 0, printed.stderr
    federation: dict[str, Any] = json.loads(printed.stdout)
    return federation


# A finished run


def test_status_has_every_adapter_from_the_base_to_the_last_one(undisturbed: Path) -> None:
    federation = read_status(undisturbed)
    assert federation["kind"] == "Federation" and federation["spec"]["rounds"] == 2
    history = federation["status"]["history"]
    assert [entry["round"] for entry in history] == [0, 1, 2]
    assert [entry["outcome"] for entry in history] == ["base", "aggregated", "aggregated"]
    for entry in history:
        assert set(entry["success"]) == set(small.ENVIRONMENTS)
        assert all(0 <= ratio <= 1 for ratio in entry["success"].values())


def test_the_whole_history_can_be_read_from_the_store_alone(
    undisturbed: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(undisturbed, copy)
    federation = json.loads((copy / "federation.json").read_text())
    kept = federation["status"]["history"]
    federation["status"]["history"] = kept[:1]
    (copy / "federation.json").write_text(json.dumps(federation))
    read = read_status(copy, "--all")["status"]["history"]
    facts = ("round", "outcome", "updates", "adapter", "success", "episodes")
    assert [[entry.get(f) for f in facts] for entry in read] == [
        [entry.get(f) for f in facts] for entry in kept
    ]


def test_a_table_shows_each_round(undisturbed: Path) -> None:
    printed = hansa("status", undisturbed)
    assert "Succeeded, 2 of 2 rounds" in printed.stdout
    assert "webshop" in printed.stdout and "aggregated" in printed.stdout


def test_logs_are_those_of_the_jobs_asked_for(undisturbed: Path) -> None:
    every = hansa("logs", undisturbed).stdout.splitlines()
    names = list(dict.fromkeys(line.split(" | ")[0] for line in every))
    assert names[:3] == ["small-r1-maze-a1", "small-r1-webshop-a1", "small-r1-aggregator-a1"]
    assert names[-2:] == ["small-e2-maze-a1", "small-e2-webshop-a1"]
    assert hansa("logs", undisturbed, "-f").stdout.splitlines() == every  # it is over
    some = hansa("logs", undisturbed, "-e", "aggregator", "--round", "2").stdout
    assert {line.split(" | ")[0] for line in some.splitlines()} == {"small-r2-aggregator-a1"}
    none = hansa("logs", undisturbed, "-e", "nobody")
    assert (none.returncode, none.stdout) == (2, "")
    assert none.stderr.startswith("error: --environment: got 'nobody', expected one of maze, ")


@pytest.mark.parametrize(
    "command",
    [("status",), ("status", "-o", "json"), ("logs",), ("trajectories",)],
    ids=" ".join,
)
def test_a_command_whose_reader_has_gone_ends_quietly(
    undisturbed: Path, command: tuple[str, ...]
) -> None:
    ended = processes.without_reader(*command, undisturbed)
    assert ended.returncode == 141, ended.stderr
    assert "error" not in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize("asked", ["last", "best", "1"])
def test_pull_copies_the_adapter_of_a_round(undisturbed: Path, tmp_path: Path, asked: str) -> None:
    status = read_status(undisturbed)["status"]
    number = {"last": 2, "best": status["best"]["round"], "1": 1}[asked]
    to = tmp_path / "adapter"
    pulled = hansa("pull", undisturbed, "--round", asked, "--to", to, "-o", "json")
    assert json.loads(pulled.stdout)["round"] == number
    digest = sha256((to / "adapter_model.safetensors").read_bytes())
    assert digest == status["history"][number]["adapter"]
    assert json.loads((to / "adapter_config.json").read_text())["peft_type"] == "LORA"
    assert f"# small, round {number}" in (to / "README.md").read_text()


@pytest.mark.parametrize(
    "asked, sentence",
    [
        pytest.param("99", "--round: got 99, which has no adapter", id="a round that is not"),
        pytest.param("0", "--round: got 0", id="the base has none"),
        pytest.param("first", "expected a round's number, `last` or `best`", id="a word"),
    ],
)
def test_pull_of_what_is_not_there_is_one_sentence(
    undisturbed: Path, tmp_path: Path, asked: str, sentence: str
) -> None:
    pulled = hansa("pull", undisturbed, "--round", asked, "--to", tmp_path / "adapter")
    assert pulled.returncode == 2
    assert sentence in pulled.stderr and "Traceback" not in pulled.stderr
    assert not (tmp_path / "adapter").exists()


def test_the_report_is_made_again_on_demand(undisturbed: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    made = hansa("report", undisturbed, "--page", page)
    assert made.returncode == 0, made.stderr
    assert "webshop" in page.read_text()


def test_running_a_finished_run_again_does_no_work(undisturbed: Path, tmp_path: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in undisturbed.glob("jobs/*/log.txt")}
    adapter = small.adapter(undisturbed)
    run = small.finish(small.write_manifest(tmp_path), undisturbed)
    after = {path.name: path.stat().st_mtime_ns for path in undisturbed.glob("jobs/*/log.txt")}
    assert after == before
    assert small.adapter(undisturbed) == adapter
    assert "report:" in run.said and "adapter:" in run.said


def test_a_changed_immutable_field_is_refused_by_name(undisturbed: Path, tmp_path: Path) -> None:
    """Which fields they are is in test_rundir.py."""
    before = (undisturbed / "federation.json").read_bytes()
    refused = hansa("run", small.write_manifest(tmp_path, seed=8), "--out", undisturbed)
    assert refused.returncode == 2
    assert (
        "error: spec.seed: got 8, expected 7" in refused.stderr and "\n\nhint: " in refused.stderr
    )
    assert (undisturbed / "federation.json").read_bytes() == before


def test_a_grown_run_goes_on_and_nobody_has_to_listen(undisturbed: Path, tmp_path: Path) -> None:
    """Rounds and epochs may change; standard output is closed and standard error's reader gone."""
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out)
    training = {**small.SPEC["training"], "epochs": 2}
    manifest = small.write_manifest(tmp_path, rounds=3, training=training)
    read, write = os.pipe()
    os.close(read)
    shell = f'exec "{sys.executable}" -m hansa.cli.main run "{manifest}" --out "{out}" >&-'
    process = subprocess.Popen(
        ["/bin/sh", "-c", shell],
        stderr=write,
        stdin=subprocess.DEVNULL,
        env={**os.environ, processes.MARK: str(out)},
    )
    os.close(write)
    assert process.wait(processes.PATIENCE_SECONDS) == 0
    until(lambda: not processes.of_run(out), "all its processes to end")
    old = small.status(undisturbed)["history"]
    new = small.status(out)["history"]
    assert [entry["adapter"] for entry in new[1:3]] == [entry["adapter"] for entry in old[1:3]]
    assert [entry["round"] for entry in new] == [0, 1, 2, 3]
    assert set(new[3]["success"]) == set(small.ENVIRONMENTS)
    jobs = {path.name for path in (out / "jobs").iterdir()} - {
        path.name for path in (undisturbed / "jobs").iterdir()
    }
    assert all(name.startswith(("small-r3-", "small-e3-")) for name in jobs), jobs


# A run at work


def hold_a_job(run: small.Run) -> None:
    """Stop a Job of the first round, so that the run stays at work while it is watched."""
    run.wait_for_phase("evaluate")

    def hold() -> bool:
        for pid in processes.jobs(run.pid).values():
            processes.kill(pid, signal.SIGSTOP)
            return not processes.is_gone(pid)
        return False

    until(hold, "a Job to hold")


def test_a_run_can_be_watched_and_stopped_and_goes_on(undisturbed: Path, tmp_path: Path) -> None:
    manifest, out = small.write_manifest(tmp_path), tmp_path / "run"
    with small.Run(manifest, out) as run:
        hold_a_job(run)
        second = hansa("run", manifest, "--out", out)
        assert second.returncode == 2
        assert f"error: {out}: another `hansa run` is at work in this folder" in second.stderr
        watching: list[Callable[[], subprocess.CompletedProcess[str]]] = [
            lambda: hansa("status", out, "--all", "-o", "json"),
            lambda: hansa("logs", out),
            lambda: hansa("report", out, "--page", tmp_path / "live.html"),
        ]
        for watch in watching:
            seen = watch()
            assert seen.returncode == 0, seen.stderr
        early = hansa("pull", out, "--round", "99", "--to", tmp_path / "early")
        assert early.returncode == 2 and "which has no adapter in the store" in early.stderr
        assert run.kill(signal.SIGINT) == 130
        assert "nothing is lost: run the same command again" in run.said
    assert "Traceback" not in run.said
    small.finish(manifest, out)
    assert small.adapter(out) == small.adapter(undisturbed)


def test_a_run_is_watched_from_another_terminal_until_its_end(tmp_path: Path) -> None:
    manifest, out = small.write_manifest(tmp_path, rounds=1), tmp_path / "run"
    with small.Run(manifest, out) as run:
        until(lambda: (out / "federation.json").exists(), "the run to begin")
        watched = hansa("watch", out)
        run.finish()
    assert watched.returncode == 0, watched.stderr
    lines = [line.split(maxsplit=1)[1] for line in watched.stdout.splitlines()]
    assert any(line.startswith("Running: round 1 waits for maze") for line in lines)
    assert lines[-1] == "Succeeded: all rounds are done"
    assert f"succeeded; report: {out / 'report.html'}" in watched.stderr


@pytest.mark.parametrize(
    "number, code",
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 143, id="a system that shuts down"),
        pytest.param(signal.SIGHUP, 129, id="a terminal that closes"),
    ],
)
def test_a_run_that_has_hardly_begun_stops_at_once(tmp_path: Path, number: int, code: int) -> None:
    with small.Run(small.write_manifest(tmp_path), tmp_path / "run") as run:
        until(lambda: "round 1 opened" in run.said, "the first round")
        assert run.kill(number) == code, run.said
    assert "nothing is lost: run the same command again" in run.said
    assert "Traceback" not in run.said
    assert small.status(tmp_path / "run")["round"] == 1


# Folders that cannot be used


def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, mount: Callable[..., Path]
) -> None:
    disk = mount("ro,size=1m")
    refused = hansa("run", small.write_manifest(tmp_path), "--out", disk / "run")
    assert refused.returncode == 2
    assert f"error: --out: got {disk / 'run'}: Read-only file system" in refused.stderr


def test_a_limit_on_the_size_of_files_is_one_sentence_before_anything_starts(
    tmp_path: Path,
) -> None:
    manifest, out = small.write_manifest(tmp_path), tmp_path / "run"
    command = f'ulimit -f 300; "{sys.executable}" -m hansa.cli.main run "{manifest}" --out "{out}"'
    refused = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=240
    )
    assert refused.returncode == 2
    assert "error: ulimit -f: got files of at most 300 KiB, expected " in refused.stderr
    assert "\n\nhint: " in refused.stderr and refused.stderr.count("error: ") == 1
    assert not list((out / "jobs").iterdir())


def fill(disk: Path) -> Path:
    """Leave no byte free; the file to delete again."""
    ballast = disk / "ballast"
    file = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    with suppress(OSError):
        while os.write(file, bytes(65536)) == 65536:
            pass
    with suppress(OSError):
        while True:
            os.write(file, b"x")
    os.close(file)
    return ballast


def test_a_disk_that_fills_up_is_one_sentence_and_the_run_goes_on_with_space(
    undisturbed: Path, tmp_path: Path, mount: Callable[..., Path]
) -> None:
    disk = mount("size=200m")
    manifest, out = small.write_manifest(tmp_path), disk / "run"
    with small.Run(manifest, out, **{ENV_PATIENCE: "2"}) as run:
        run.wait_for_phase("evaluate")
        ballast = fill(disk)
        assert run.wait() == 1
    sentence = f"error: --out: got {out}, whose disk is full\n\nhint: free some space"
    assert sentence in run.said and "Traceback" not in run.said
    before = (out / "federation.json").read_bytes()
    refused = hansa("run", manifest, "--out", out)
    assert refused.returncode == 2
    assert "whose disk is full, expected at least" in refused.stderr
    assert (out / "federation.json").read_bytes() == before, "what was saved stays"
    ballast.unlink()
    small.finish(manifest, out)
    assert small.adapter(out) == small.adapter(undisturbed)
