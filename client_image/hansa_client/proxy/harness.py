"""Harnesses: agents that are started as a command or called by URL, and return a result."""

import http.client
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hansa.api.assignment import ENV_HARNESS_LOG, ENV_WORLD_COMMANDS
from hansa_client.proxy import keeper
from hansa_worlds import OptionError

MOST_BYTES = 2**16
"""Of a result."""
CLOSE_SECONDS = 20.0
"""How long a harness may take to end when it is closed."""
_PASSED = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "VIRTUAL_ENV", "SSL_CERT_FILE"),
    *("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"),
)
"""Environment variables that a harness inherits: all others may be credentials."""
_RESULT = "result.json"
_FITS = 'expected {"success": true} or {"success": false}, and a number as "score" if there is one'


@dataclass(frozen=True, kw_only=True)
class HarnessRequest:
    """What a harness is asked to do."""

    base_url: str
    """The recording endpoint, as OpenAI's clients take it."""
    api_key: str
    """What opens it, for this episode alone."""
    model: str
    """A name for the model; the endpoint takes any."""
    task: Mapping[str, Any]
    """Id, split and number of the task."""
    seed: int
    """Seed of the episode."""

    def to_environ(self) -> dict[str, str]:
        """As environment variables of a command."""
        return {
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_KEY": self.api_key,
            "HANSA_MODEL": self.model,
            "HANSA_TASK": json.dumps(self.task),
            "HANSA_SEED": str(self.seed),
        }


@dataclass(frozen=True, kw_only=True)
class HarnessExit:
    """How a harness ended."""

    success: bool = False
    """Whether it says that the task is done."""
    score: float = 0.0
    """How well, by its own measure; 1 for a success and 0 for a failure where it does not say."""
    fault: str = ""
    """Why that does not count; empty: it does."""


Tell = Callable[[HarnessExit], None]
"""Called once, by a thread of the harness, when it has ended."""


class Command:
    """A program of this machine, in a session of its own."""

    def __init__(self, command: Sequence[str], errand: HarnessRequest, tell: Tell) -> None:
        program = shutil.which(command[0])
        if not program:
            raise OptionError(
                f"options.command: got {command[0]!r}, expected a program that can be run here"
            )
        self._tell = tell
        self._folder = Path(tempfile.mkdtemp(prefix="hansa-harness-"))
        own = {name: os.environ[name] for name in _PASSED if name in os.environ}
        folder = str(self._folder)
        own |= {"HOME": folder, "TMPDIR": folder, "HANSA_RESULT": str(self._folder / _RESULT)}
        keep = [sys.executable, "-I", "-S", keeper.__file__, folder]
        with Path(os.environ.get(ENV_HARNESS_LOG) or os.devnull).open("ab") as log:
            self._process = subprocess.Popen(
                [*keep, program, *command[1:]],
                env=own | errand.to_environ(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._thread = threading.Thread(target=self._wait, name="harness", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it and all that it has started; its folder goes with it."""
        if self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_SECONDS)
        self._process.kill()
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        code = self._process.wait()
        if code:
            self._tell(HarnessExit(fault=f"the harness ended with exit status {code}, expected 0"))
            return
        try:
            with (self._folder / _RESULT).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError:
            self._tell(HarnessExit(fault=f"the harness wrote nothing to HANSA_RESULT, {_FITS}"))
            return
        self._tell(read_result(data, "HANSA_RESULT"))


class Call:
    """A harness that runs already: one request, whose answer is the result."""

    def __init__(self, url: str, errand: HarnessRequest, tell: Tell, seconds: float) -> None:
        parts = urlsplit(url)
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        self._connection = kinds[parts.scheme](parts.netloc, timeout=seconds)
        self._path = parts.path or "/"
        self._tell = tell
        self._is_closed = False
        arguments = (json.dumps(asdict(errand)).encode(),)
        self._thread = threading.Thread(target=self._ask, args=arguments, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the connection, upon which the harness should end the episode."""
        self._is_closed = True
        self._connection.close()

    def _ask(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        try:
            self._connection.request("POST", self._path, body, headers)
            answer = self._connection.getresponse()
            data = answer.read(MOST_BYTES + 1)
        except (OSError, http.client.HTTPException, AttributeError, ValueError) as error:
            if not self._is_closed:  # `close` has closed its socket then
                self._tell(HarnessExit(fault=f"options.url: no answer ({type(error).__name__})"))
            return
        if answer.status != http.client.OK:
            fault = f"options.url: got HTTP {answer.status}, expected 200 and the result"
            self._tell(HarnessExit(fault=fault))
            return
        self._tell(read_result(data, "the harness's answer"))


def read_result(data: bytes, where: str) -> HarnessExit:
    """The result of an episode; other text of the harness is never passed on."""
    try:
        document = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        document = None
    success = document.get("success") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(success, bool):
        return HarnessExit(fault=f"{where}: {_FITS}")
    score = document.get("score")
    if score is None:
        score = float(success)
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not math.isfinite(score) or abs(score) > 1e6:
        return HarnessExit(fault=f"{where}: {_FITS}")
    return HarnessExit(success=success, score=float(score))


def check_allowed(command: Sequence[str]) -> None:
    """Refuse a command that the machine's or the image's owner has not allowed.

    Options come from a manifest, which another party may have written.
    """
    given = os.environ.get(ENV_WORLD_COMMANDS, "")
    allowed = [_split_words(each) for each in given.split(",")]
    if any(words and list(command[: len(words)]) == words for words in allowed):
        return
    raise OptionError(
        f"options.command: got {shlex.join(command)[:200]!r}, expected one that begins with a "
        f"command in {ENV_WORLD_COMMANDS} (now {given.strip() or 'nothing'})"
    )


def _split_words(command: str) -> list[str]:
    """A command's words as a shell reads them; none where its quotes have no end."""
    try:
        return shlex.split(command)
    except ValueError:
        return []
