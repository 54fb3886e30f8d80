"""A second user of the machine beside `hansa run`, `hansa join` and `hansa serve` at work."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hansa import pull
from hansa.local.objectstore import BUCKET
from tests.support import processes, small, stranger
from tests.support.parties import Parties, status
from tests.support.processes import until
from tests.support.small import NAME

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which may act as another user"),
]
CHAT = json.dumps({"model": "final", "messages": [{"role": "user", "content": "look"}]})
REQUESTS = [
    *((method, path, "") for method in ("GET", "DELETE") for path in ("/", f"/{BUCKET}/", "/a")),
    ("GET", f"/buckets/{BUCKET}/?recursive=true", ""),
    ("DELETE", f"/buckets/{BUCKET}?recursive=true&ignoreRecursiveError=true", ""),
    ("GET", f"/col/delete?collection={BUCKET}", ""),
    ("PUT", f"/{BUCKET}/planted", "planted"),
    ("GET", "/v1/models", ""),
    ("POST", "/v1/chat/completions", CHAT),
]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder that the other user can enter, unlike those of tests."""
    with stranger.make_open_folder(tmp_path.name) as folder:
        folder.chmod(0o755)
        yield folder


def attack(pid: int, *files: Path) -> list[str]:
    """What another user reads or changes of a program, its children, files and ports."""
    everyone = [pid]
    for each in everyone:
        everyone += processes.children(each)
    opened = {path for each in everyone for path in stranger.list_open_files(each)}
    opened = {path for path in opened if path.suffix != ".stderr"}  # the test's own
    ports = sorted({port for each in everyone for port in stranger.list_ports(each)})
    assert opened or ports

    def look() -> list[str]:
        reached = [f"{each}: {what}" for each in everyone for what in stranger.reach_process(each)]
        for path in (*files, *opened):
            reached += [f"{path}: {what}" for what in stranger.reach_path(path)]
        for port in ports:
            for asked, body in stranger.ask_port(port, REQUESTS):
                if asked[-3:].startswith("2") or NAME in body or "Thought" in body:
                    reached.append(f"{port}: {asked}: {body[:200]}")
        return reached

    reached: list[str] = stranger.as_stranger(look)
    return reached


def attack_with_weed(place: Path, pid: int) -> bytes:
    """What the store's own tools print for another user, who reads its ports in /proc."""
    words = processes.cmdline(pid)
    ports = dict(word[1:].split("=", 1) for word in words if ".port" in word and "=" in word)
    master, filer = (
        f"127.0.0.1:{ports[f'{part}.port']}.{ports[f'{part}.port.grpc']}"
        for part in ("master", "filer")
    )
    shell = ["shell", f"-master={master}", f"-filer={filer}"]
    attempts = [
        ([*shell], f"fs.tree /buckets/{BUCKET}\n"),
        ([*shell], f"lock\nfs.rm -r /buckets/{BUCKET}\n"),
        (["backup", f"-master={master}", "-volumeId=1", "-dir=.", f"-collection={BUCKET}"], ""),
    ]
    with ThreadPoolExecutor() as pool:  # each waits in vain for seconds
        said = pool.map(lambda attempt: stranger.run_weed(place, *attempt), attempts)
    return b"".join(said)


@pytest.mark.attack(
    by="an honest party",
    does="tries on a program of its own what attackers of a running one try",
    result="works; otherwise the attacks by other users would prove nothing",
)
def test_a_programs_own_user_reaches_it_by_the_same_attempts(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], cwd=tmp_path) as program:
        reached = " ".join(stranger.reach_process(program.pid))
        program.kill()
    for what in ("environ", "mem", "maps", "cwd", "fd", "a signal"):
        assert what in reached, "or the attacks below would show nothing"
    (tmp_path / "mine").mkdir()
    assert {"lists []", "opens 0", "changes it"} <= set(stranger.reach_path(tmp_path / "mine"))


@pytest.mark.attack(
    by="another user of the machine",
    does="reads memory, files and ports of a run at work, with the store's own tools, too",
    result="nothing is read or changed, and the run ends with the bytes that it has alone",
)
def test_another_user_reads_and_changes_nothing_of_a_run(
    place: Path, tmp_path: Path, undisturbed: Path
) -> None:
    with small.Run(small.write_manifest(place, rounds=50), place / "run") as run:  # long enough
        run.wait_for_phase("explore")
        store = processes.weed(run.pid)
        with stranger.make_open_folder(f"{tmp_path.name}-tools") as tools:
            said = attack_with_weed(tools, store)
        assert b"maze" not in said and b"Thought" not in said
        assert attack(run.pid, run.out) == []
        assert run.process.poll() is None, "it was attacked while it ran"
        until(lambda: small.status(run.out)["completed"] >= 2, "as many rounds as undisturbed")
    pulled = pull(run.out, tmp_path / "pulled", round=2)
    for name in small.FILES:
        assert (pulled / name).read_bytes() == (undisturbed / "adapter" / name).read_bytes()


@pytest.mark.attack(
    by="another user of the machine",
    does="reads memory, files, keys and ports of a silo that takes part from this machine",
    result="nothing is read or changed",
)
def test_another_user_reads_and_changes_nothing_of_a_silo_that_joined(
    place: Path, tmp_path: Path
) -> None:
    small_manifest = small.write_manifest(tmp_path)
    printed = small.hansa("model", "-f", small_manifest, "-o", "json")
    digests = {
        key: {**small.SPEC.get(key, {}), **value}
        for key, value in json.loads(printed.stdout).items()
    }
    parties = Parties(place)
    with parties.store:
        manifest = parties.manifest(digests, rounds=1)
        parties.store.restart_with_grants()
        member = parties.member(manifest)
        given = parties.credentials("webshop")
        given.chmod(0o600)
        with parties.coordinate(manifest) as coordinator, parties.join(member, "--stay") as silo:
            until(lambda: "Working" in str(status(silo)), "the silo to work")
            secrets = (silo.out, coordinator.out, given, *(key for key, _ in parties.keys.values()))
            assert attack(silo.pid, *secrets) == []
            with stranger.make_open_folder(f"{tmp_path.name}-tools") as tools:
                said = attack_with_weed(tools, processes.weed(silo.pid))
            assert b"webshop" not in said and b"Thought" not in said
            assert silo.process.poll() is None, "it was attacked while it ran"
            coordinator.finish()


@pytest.mark.attack(
    by="another user of the machine",
    does="asks a server without a key for its models and for answers",
    result="refused: without a key it answers its own user and root alone",
)
def test_another_user_gets_no_answer_of_a_server_without_a_key(
    place: Path, undisturbed: Path
) -> None:
    command = [sys.executable, "-m", "hansa.cli.main", "serve", str(undisturbed), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=place
    ) as server:
        try:
            assert server.stdout
            port = int(server.stdout.readline().strip().rpartition(":")[2])
            [models] = stranger.ask_port(port, [("GET", "/v1/models", "")])[:1]
            assert models[0].endswith("200") and "final" in models[1]
            assert attack(server.pid) == []
            for asked, body in stranger.as_stranger(lambda: stranger.ask_port(port, REQUESTS)):
                assert asked == "raw" or "another user of this machine" in body or " 405" in asked
            assert server.poll() is None
        finally:
            server.terminate()
