"""`transformers serve`: the project's own transformers, with the packages that its server wants."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import urllib3

from tests.support import own_environment


def arguments(port: int) -> list[str]:
    """What the documentation gives it."""
    return ["--host", "127.0.0.1", "--port", str(port)]


@contextmanager
def serving(folder: Path, *more: str) -> Iterator[str]:
    """The address of a server, which has no network and an empty cache; its log is in the folder.

    The interpreter is this one: another torch would be gigabytes. What its server needs beside
    that (FastAPI, uvicorn) is lent to it by path.
    """
    (site,) = own_environment.install("transformers").parent.glob("lib/*/site-packages")
    port = own_environment.free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", *more]
    command += [*arguments(port), "--device", "cpu"]

    def is_up() -> bool:
        with suppress(urllib3.exceptions.HTTPError):
            return urllib3.request("GET", f"{url}/health", retries=False).status == 200
        return False

    environ = {
        "PYTHONPATH": str(site),
        "HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    with own_environment.running(command, folder, is_up, "transformers serve", **environ):
        yield url
