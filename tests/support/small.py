"""A federation of seconds, run as users run it: `hansa run` as a process, with a folder."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from hansa.api import bucket_keys
from hansa.local.objectstore import RUNNER, LocalStore
from hansa_worlds import DEMO_OPTIONS
from tests.support import processes
from tests.support.processes import MARK, PATIENCE_SECONDS, until

NAME = "small"
ENVIRONMENTS = ("maze", "webshop")
FILES = (bucket_keys.ADAPTER, bucket_keys.CONFIG)
"""What is promised byte for byte."""
SPEC: dict[str, Any] = {
    "rounds": 2,
    "seed": 7,
    "model": {"source": "builtin:tiny"},
    "exploration": {"tasksPerRound": 8, "batchEpisodes": 32, "maxNewTokens": 64},
    "experience": {"demonstrations": 6, "thoughts": False, "circles": "skip"},
    "training": {
        "epochs": 1,
        "learningRate": 5.0e-3,
        "batchTokens": 1024,
        "maxLength": 512,
        "maxSteps": 6,
    },
    "evaluation": {"tasks": 8},
    "aggregation": {"strategy": "mean", "serverStep": "auto"},
    "participation": {"retries": 100},
    "environments": [
        {
            "name": "maze",
            "world": "maze",
            "options": {**DEMO_OPTIONS["maze"], "max_turns": 4},
        },
        {
            "name": "webshop",
            "world": "webshop",
            "options": {**DEMO_OPTIONS["webshop"], "max_turns": 4},
        },
    ],
}


def write_manifest(folder: Path, **changes: Any) -> Path:
    """The small federation's manifest, with other values for some fields of the spec."""
    document = {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": NAME},
        "spec": {**SPEC, **changes},
    }
    path = folder / "federation.yaml"
    path.write_text(json.dumps(document))
    return path


def write_beside_maze(folder: Path, environment: dict[str, Any], **exploration: Any) -> Path:
    """The manifest of one round of a small maze and of a world that a server plays."""
    maze = {"name": "maze", "world": "maze", "options": {"map": "generated", "max_turns": 4}}
    return write_manifest(
        folder,
        rounds=1,
        experience={"demonstrations": 0},
        exploration={"tasksPerRound": 12, "batchEpisodes": 8, **exploration},
        participation={"retries": 0},
        environments=[maze, environment],
    )


def install_tickets(site: Path, world: str) -> str:
    """A stranger's package with a world Tickets, as pip would leave it; PYTHONPATH with it."""
    package, about = site / "tickets", site / "tickets-1.0.dist-info"
    for folder in (package, about):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text('"""A stranger\'s package."""\n')
    (package / "world.py").write_text(world)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tickets\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[hansa.worlds]\ntickets = tickets.world:Tickets\n")
    return os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))


def storage(store: LocalStore, endpoint: str, prefix: str) -> dict[str, Any]:
    """spec.storage for a running store, reached by another address, for example a proxy's."""
    return {"s3": {"endpoint": endpoint, "bucket": store.s3.bucket, "prefix": prefix}}


def write_credentials(folder: Path, store: LocalStore) -> Path:
    """A --credentials file with which everybody is the store's owner."""
    path = folder / "credentials.json"
    variables = store.environ(RUNNER)
    path.write_text(json.dumps({"default": variables}))
    return path


def hansa(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    return subprocess.run(
        _command(arguments),
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )


class Run:
    """`hansa run` in a process group of its own; leaving the block ends it and all that is its."""

    command = "run"
    """`compare` for a comparison."""
    is_of_manifest = True
    """Whether the command is given the manifest, or only the folder."""
    within: tuple[str, ...] = ()
    """What comes before the command, for example to run it in another network."""

    def __init__(self, manifest: Path, out: Path, *arguments: str | Path, **environ: str) -> None:
        self.manifest = manifest
        self.out = out
        self._log = manifest.with_name(f"{out.name}.stderr")  # not on the run's disk
        given = (manifest, "--out", out) if self.is_of_manifest else (out,)
        with self._log.open("w") as stderr:
            self.process = subprocess.Popen(
                [*self.within, *_command((self.command, *given, *arguments))],
                env={**os.environ, MARK: str(out), **environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self.expect_nothing_left()

    @property
    def pid(self) -> int:
        """The runner's process."""
        return self.process.pid

    @property
    def said(self) -> str:
        """What it told the person, so far."""
        return self._log.read_text()

    @property
    def events(self) -> str:
        """Its log of events, so far."""
        path = self.out / "events.log"
        return path.read_text() if path.exists() else ""

    def wait(self) -> int:
        """Its exit code, once it ends; everything it started must have ended with it."""
        code = self.process.wait(PATIENCE_SECONDS)
        self.expect_nothing_left()
        return code

    def finish(self) -> None:
        """Wait for a good end."""
        code = self.wait()
        assert code == 0, self.said

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send the runner, and it alone, a signal, and wait for the end."""
        processes.kill(self.pid, number)
        return self.wait()

    def expect_nothing_left(self) -> None:
        """No process outlives the runner, however that ended."""
        until(lambda: not processes.of_run(self.out), f"processes of {self.out} to end")

    def wait_for_phase(self, phase: str, round_: int = 1) -> str:
        """Name of a Job of a round that is seen in a phase: explore, train, ..."""
        seen: list[str] = []

        def look() -> bool:
            assert self.process.poll() is None, f"ended before it came to {phase}: {self.said}"
            for path in sorted(self.out.glob(f"jobs/{NAME}-r{round_}-*/progress.json")):
                with contextlib.suppress(OSError, ValueError):
                    if json.loads(path.read_text()).get("phase") == phase:
                        seen.append(path.parent.name)
            return bool(seen)

        until(look, f"a Job of round {round_} to {phase}")
        return seen[0]


def finish(manifest: Path, out: Path, *arguments: str | Path, **environ: str) -> Run:
    """A run to its good end."""
    with Run(manifest, out, *arguments, **environ) as run:
        run.finish()
    return run


def adapter(out: Path) -> dict[str, bytes]:
    """The final adapter of a run as its folder has it."""
    return {name: (out / "adapter" / name).read_bytes() for name in FILES}


def status(out: Path) -> dict[str, Any]:
    """The object as last saved."""
    federation: dict[str, Any] = json.loads((out / "federation.json").read_text())
    return dict(federation["status"])


def _command(arguments: tuple[str | Path, ...]) -> list[str]:
    return [sys.executable, "-m", "hansa.cli.main", *map(str, arguments)]
