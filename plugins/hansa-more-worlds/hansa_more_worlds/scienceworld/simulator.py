"""The simulator: one Java process for all worlds of this process, started when a game begins.

It is reached over loopback with a secret of its own, and ends with this process. Java numbers its
objects at random by default, and ScienceWorld lists things and plans its gold paths in the order of
these numbers; here all numbers are equal, so that the same task is the same episode everywhere.
"""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, NamedTuple

from hansa_more_worlds.packages import load
from hansa_worlds.errors import WorldDown

NAME = "scienceworld"
MODULE = "scienceworld"
JAVA = "java"
JAVA_PACKAGE = "default-jre-headless"
_JAVA_OPTIONS = ["-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2", "-XX:+UseSerialGC"]

_lock = Lock()


class _Simulator(NamedTuple):
    gateway: Any
    """The way to it."""
    folder: TemporaryDirectory[str]
    """Where it runs; gone with it."""


_running: tuple[int, _Simulator] | None = None
"""The process that started it, and the simulator: a fork must not use its parent's."""


def new_game() -> Any:
    """A game in the simulator, which is started if need be."""
    global _running
    with _lock:
        if _running is None or _running[0] != os.getpid():
            _running = os.getpid(), _start()
        gateway = _running[1].gateway
    try:
        return gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
    except Exception as error:
        raise lost() from error


def lost() -> WorldDown:
    """What to raise when the simulator does not answer; the next game starts another."""
    stop()
    return WorldDown("ScienceWorld's simulator, a Java process, ended or does not answer")


def stop() -> None:
    """End the simulator that this process has started."""
    global _running
    with _lock:
        running, _running = _running, None
    if running is None or running[0] != os.getpid():
        return
    gateway, folder = running[1]
    process = gateway.java_process
    for end in (gateway.shutdown, process.kill, process.wait, folder.cleanup):
        with suppress(Exception):  # whichever it still needs
            end()


def _start() -> _Simulator:
    java = load(NAME, "py4j.java_gateway")
    jar = load(NAME, f"{MODULE}.constants").JAR_PATH
    try:
        folder = TemporaryDirectory(prefix="hansa-scienceworld-")  # it writes a table into its own
        port, token, process = java.launch_gateway(
            classpath=jar,
            cwd=folder.name,
            javaopts=_JAVA_OPTIONS,
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        how = java.GatewayParameters(port=port, auth_token=token, auto_field=True)
        gateway = java.JavaGateway(gateway_parameters=how, java_process=process)
        return _Simulator(gateway, folder)
    except Exception as error:
        raise WorldDown(
            f"ScienceWorld's simulator did not start ({type(error).__name__}), expected a Java"
            f" that takes {' '.join(_JAVA_OPTIONS)}, such as OpenJDK"
        ) from error


atexit.register(stop)
