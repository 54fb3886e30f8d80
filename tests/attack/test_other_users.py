"""Another user of the same machine, with the store's own tools: nothing is read or changed."""

import os
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansa.core.errors import InputError, PermanentError
from hansa.local.objectstore import BUCKET, LocalStore
from hansa.local.rundir import RunDir
from hansa_client.models.base_model import make_cache_folder
from tests.support.stranger import ask_port, make_open_folder, run_weed

SECRET = b"a trajectory of the clinic"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    with LocalStore(tmp_path_factory.mktemp("run") / "store", ["maze"]) as local:
        local.store().put_if_absent("private/maze", SECRET * 1000)
        yield local


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Path]:
    """A folder that everybody may use."""
    with make_open_folder(tmp_path.name) as place:
        yield place


def address(store: LocalStore, part: str) -> str:
    ports = store._ports
    return f"127.0.0.1:{ports[f'{part}.port']}.{ports[f'{part}.port.grpc']}"


def shell(store: LocalStore) -> list[str]:
    return ["shell", f"-master={address(store, 'master')}", f"-filer={address(store, 'filer')}"]


@pytest.mark.attack(
    by="an honest party",
    does="reads its own store with that store's tools",
    result="works; otherwise the attacks by other users would prove nothing",
)
def test_its_owner_reads_it_with_the_same_tools(store: LocalStore, stranger: Path) -> None:
    listed = run_weed(stranger, shell(store), f"fs.ls /buckets/{BUCKET}/private\n", store._grpc)
    assert b"maze" in listed, "or the tests below would show nothing"


@pytest.mark.attack(
    by="another user of the machine",
    does="lists, reads, moves or deletes objects with the store's own tools",
    result="nothing: its gRPC ports require a certificate",
)
@pytest.mark.parametrize(
    "typed",
    [
        f"fs.ls /buckets/{BUCKET}/private\n",
        f"fs.cat /buckets/{BUCKET}/private/maze\n",
        f"lock\nfs.rm -r /buckets/{BUCKET}/private\n",
        f"lock\nfs.mv /buckets/{BUCKET}/private /buckets/{BUCKET}/moved\n",
        "lock\nvolume.delete.empty -quietFor=1s -force\n",
        "lock\ns3.configure -user=me -access_key=me -secret_key=me -actions=Admin -apply\n",
    ],
    ids=["list", "read", "delete", "move", "empty", "new user"],
)
def test_the_shell_of_another_user_does_nothing(
    store: LocalStore, stranger: Path, typed: str
) -> None:
    said = run_weed(stranger, shell(store), typed)
    assert SECRET not in said and b"maze" not in said.replace(typed.encode(), b"")
    assert store.store().get("private/maze") == SECRET * 1000


@pytest.mark.attack(
    by="another user of the machine",
    does="lists, reads, moves or deletes objects with the store's own tools",
    result="nothing: its gRPC ports require a certificate",
)
@pytest.mark.parametrize("collection", ["", BUCKET])
def test_another_user_copies_no_volume(store: LocalStore, stranger: Path, collection: str) -> None:
    for number in range(1, 4):
        arguments = [f"-master={address(store, 'master')}", f"-volumeId={number}", "-dir=."]
        said = run_weed(stranger, ["backup", *arguments, f"-collection={collection}"])
        assert SECRET not in said


@pytest.mark.attack(
    by="another user of the machine",
    does="asks the store's HTTP ports for an object",
    result="refused",
)
@pytest.mark.parametrize("part", ["filer", "volume", "master", "s3"])
def test_another_user_gets_no_object_by_http(store: LocalStore, part: str) -> None:
    paths = (f"/buckets/{BUCKET}/private/maze", f"/{BUCKET}/private/maze", "/?pretty=y")
    answers = ask_port(store._ports[f"{part}.port"], [("GET", path, "") for path in paths])
    assert not any(SECRET.decode() in body for _, body in answers)


@pytest.mark.attack(
    by="another user of the machine",
    does="asks the store's master by HTTP to delete all objects, or for a token of its volumes",
    result="refused: its master requires a certificate, too",
)
@pytest.mark.parametrize(
    "path",
    [
        f"/col/delete?collection={BUCKET}",
        "/dir/assign",
        "/dir/lookup?fileId=1,01637037d6&read=yes",
        "/vol/status",
        "/vol/vacuum?garbageThreshold=0",
        "/vol/grow?count=1",
        "/submit",
    ],
)
def test_the_master_obeys_nobody_without_a_certificate(store: LocalStore, path: str) -> None:
    port = store._ports["master.port"]
    answers = ask_port(port, [("GET", path, ""), ("POST", path, "")])
    assert all("Client sent an HTTP request to an HTTPS server" in body for _, body in answers[:2])
    context = ssl.create_default_context(cafile=store.folder / "grpc.pem")
    context.check_hostname = False
    with pytest.raises(OSError, match="certificate required"):
        ask_master(port, path, context)
    assert store.store().get("private/maze") == SECRET * 1000
    context.load_cert_chain(store.folder / "grpc.pem", store.folder / "grpc.key")
    assert ask_master(port, "/vol/status", context), "or the refusals would show nothing"


def ask_master(port: int, path: str, context: ssl.SSLContext) -> bytes:
    with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", context=context) as answer:
        return bytes(answer.read())


@pytest.mark.attack(
    by="another user of the machine",
    does="takes the key of the store's certificates, or keeps an old one",
    result="only its owner can read the file; it is new at each start and removed at the end",
)
def test_the_key_of_its_parts_is_the_owners_and_goes_with_the_store(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store", ["maze"]) as local:
        key = local.folder / "grpc.key"
        first = key.read_bytes()
        assert key.stat().st_mode & 0o777 == 0o600
    assert not key.exists()
    with LocalStore(tmp_path / "store", ["maze"]):
        assert key.read_bytes() != first


@pytest.mark.attack(
    by="another user of the machine",
    does="puts links or configuration into a run's folder for its owner to open",
    result="the folder is refused; the configuration is not read",
)
@pytest.mark.skipif(sys.platform != "linux", reason="configuration is looked for in /proc's terms")
def test_a_configuration_that_lies_in_the_folder_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    for place in (folder, folder / "empty", folder / ".seaweedfs"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "filer.toml").write_text('[redis2]\nenabled = true\naddress = "127.0.0.1:9"\n')
    with LocalStore(folder, ["maze"]) as local:
        local.store().put_if_absent("kept", b"kept")
        assert b"redis" not in (folder / "weed.log").read_bytes()
        assert list((folder / "empty").iterdir()) == []


@pytest.mark.attack(
    by="another user of the machine",
    does="puts links or configuration into a run's folder for its owner to open",
    result="the folder is refused; the configuration is not read",
)
@pytest.mark.parametrize("name", ["events.log", "jobs", "store/data", "store/weed.log"])
def test_a_run_folder_with_a_link_in_it_is_not_used(tmp_path: Path, name: str) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("my own\n")
    link = tmp_path / "run" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(mine)
    folder = RunDir(tmp_path / "run")
    with pytest.raises(InputError, match=f"{name}: got a link, expected a file"), folder.lock():
        pass
    if name.startswith("store/"):
        with pytest.raises(InputError, match="got a link"):
            LocalStore(folder.store, ["maze"]).start()
    assert mine.read_text() == "my own\n"


@pytest.mark.attack(
    by="another user of the machine",
    does="reads a new run's folder",
    result="only its owner can, unless the owner opens it",
)
def test_a_new_run_folder_is_its_owners_and_one_that_was_opened_stays_open(tmp_path: Path) -> None:
    folder = RunDir(tmp_path / "runs" / "mine")
    folder.prepare()
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.path.chmod(0o755)
    folder.prepare()
    assert folder.path.stat().st_mode & 0o777 == 0o755


@pytest.mark.attack(
    by="another user of the machine",
    does="puts a link in place of a run's `events.log`",
    result="nothing is appended through it",
)
def test_an_event_is_not_appended_to_what_a_link_names(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from hansa.api.jobs import Event

    mine = tmp_path / "mine.txt"
    mine.write_text("my own\n")
    (tmp_path / "events.log").symlink_to(mine)
    with pytest.raises(OSError, match="symbolic"):
        RunDir(tmp_path).log_events([Event(reason="Resumed", message="x")], datetime.now(UTC))
    assert mine.read_text() == "my own\n"


@pytest.mark.attack(
    by="another user of the machine",
    does="makes the folder of downloaded models below `/tmp` first",
    result="refused: it must be the user's own",
)
@pytest.mark.parametrize("planted", ["a link", "open to all"])
def test_a_planted_cache_of_models_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("HANSA_MODEL_CACHE", raising=False)
    folder = tmp_path / f"hansa-{os.getuid()}"
    if planted == "a link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "theirs")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    with pytest.raises(PermanentError, match="expected one of this user's own"):
        make_cache_folder()
    folder.unlink() if planted == "a link" else folder.rmdir()
    assert make_cache_folder().stat().st_mode & 0o777 == 0o700
