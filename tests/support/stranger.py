"""Another user of this machine, and what it may try beside a program that runs."""

import encodings.idna  # noqa: F401  (the other user may not be able to import it)
import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from hansa.local.objectstore import find_weed

NOBODY = 65534


@contextmanager
def make_open_folder(name: str) -> Iterator[Path]:
    """A folder below /tmp that everybody may use, with a copy of the store's tool in it.

    Those that pytest makes are their user's alone.
    """
    place = Path("/tmp", f"hansa-{os.getpid()}-{name}")
    place.mkdir()
    place.chmod(0o777)
    shutil.copy(find_weed(), place / "weed")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run_weed(
    place: Path, arguments: list[str], typed: str = "", environ: Mapping[str, str] | None = None
) -> bytes:
    """What the store's tool prints and writes; as another user where this one may become one.

    With an environment it runs as the store's owner.
    """
    other: dict[str, int] = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
    done = subprocess.run(
        ["timeout", "8", str(place / "weed"), *arguments],
        input=typed.encode(),
        capture_output=True,
        cwd=place,
        env={"HOME": str(place), "PATH": os.defpath, **(environ or {})},
        check=False,
        **({} if environ else other),  # type: ignore[arg-type]
    )
    files = [path for path in place.iterdir() if path.is_file() and path.name != "weed"]
    return done.stdout + done.stderr + b"".join(path.read_bytes() for path in files)


def as_stranger(attempt: Callable[[], Any]) -> Any:
    """What an attempt returns, made by a process of another user; its value must fit into JSON."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setsid()  # in one session everybody may send SIGCONT
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = json.dumps(attempt())
        except BaseException as error:
            answer = json.dumps({"error": repr(error)})
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = json.loads(pipe.read())
    os.waitpid(child, 0)
    assert not isinstance(answer, dict), answer
    return answer


def list_open_files(pid: int) -> list[Path]:
    """Files and folders below /tmp that a process has open."""
    targets = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            targets.append(link.readlink())
    return [path for path in targets if path.is_relative_to("/tmp")]


def list_ports(pid: int) -> list[int]:
    """TCP ports that a process listens on."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            sockets.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row for row in rows if row[3] == "0A" and row[9] in sockets]
    return sorted({int(row[1].rpartition(":")[2], 16) for row in listening})


def reach_process(pid: int) -> list[str]:
    """What of a process a user reads or does: nothing, of another user's."""
    reached = []
    for name in ("environ", "mem", "maps", "root/etc/passwd"):
        with suppress(OSError), Path(f"/proc/{pid}/{name}").open("rb"):
            reached.append(name)
    with suppress(OSError):
        reached.append(f"cwd {Path(f'/proc/{pid}/cwd').readlink()}")
    with suppress(OSError):
        reached += [f"fd {each}" for each in Path(f"/proc/{pid}/fd").iterdir()]
    with suppress(OSError):
        os.kill(pid, signal.SIGCONT)
        reached.append("a signal")
    return reached


def reach_path(path: Path) -> list[str]:
    """What of a file or folder a user reads or changes: nothing, of another user's."""
    reached = []
    with suppress(OSError):
        reached.append(f"lists {sorted(each.name for each in path.iterdir())}")
    for flags in (os.O_RDONLY, os.O_WRONLY):
        with suppress(OSError):
            os.close(os.open(path, flags))
            reached.append(f"opens {flags}")
    for change in (
        lambda: (path / "planted").touch(),
        lambda: path.chmod(0o777),
        lambda: path.rename(f"{path}-moved"),
        lambda: (path.rmdir if path.is_dir() else path.unlink)(),
    ):
        with suppress(OSError):
            change()
            reached.append("changes it")
    return reached


def read(answer: Any) -> str:
    """Its body, whatever it is."""
    return bytes(answer.read()).decode(errors="replace")


def ask_port(port: int, requests: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Answers of a port to requests (method, path, body), whatever their status."""
    answers = []
    for method, path, body in requests:
        url = f"http://127.0.0.1:{port}{path}"
        request = urllib.request.Request(url, body.encode() or None, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310  (http)
                answers.append((f"{method} {path} {response.status}", read(response)))
        except urllib.error.HTTPError as refusal:
            answers.append((f"{method} {path} {refusal.code}", read(refusal)))
        except (OSError, ValueError, HTTPException) as error:  # a port that speaks no HTTP
            answers.append((f"{method} {path}", type(error).__name__))
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as raw:
        raw.sendall(b"\n\n")
        answers.append(("raw", raw.recv(4096).decode(errors="replace")))
    return answers
