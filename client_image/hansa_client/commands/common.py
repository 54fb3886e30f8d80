"""What commands that play share: options, a world, one of its tasks, a model, files."""

import json
import random
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.api.bucket_keys import CONFIG
from hansa.api.worlds import WORLDS
from hansa.cli.common import say
from hansa.cli.target import Credentials
from hansa.core.errors import HansaError, InputError, PermanentError, describe_bug
from hansa.local.rundir import RunDir
from hansa.manifests import world_files
from hansa_worlds.base import SPLITS, Split, Task, World
from hansa_worlds.errors import WorldError

if TYPE_CHECKING:
    from hansa_client.models.base_model import Base
    from hansa_client.rollout.live_episodes import RolloutConfig

WorldName = Annotated[str, typer.Argument(metavar="WORLD", help="A world: maze, wordle, ...")]
WorldOrRun = Annotated[
    str, typer.Argument(metavar="WORLD|RUN", help="A world: maze, ...; or the folder of a run.")
]
SplitName = Annotated[Split, typer.Option("--split", help="Which of the world's tasks.")]
Threads = Annotated[int, typer.Option(min=1, help="CPU threads of the model.")]

BUILTIN = "builtin:tiny"
"""The model that comes with Hansa."""


@dataclass(frozen=True, kw_only=True)
class WorldOptions:
    """The options by which a command takes those of a world."""

    option: Annotated[
        list[str] | None, typer.Option(help="An option of the world, as size=6; repeatable.")
    ] = None
    options: Annotated[
        str, typer.Option(help="Options of the world as JSON, as in the manifest.")
    ] = "{}"

    def read(self) -> dict[str, Any]:
        """The world's options: JSON first, then NAME=VALUE by NAME=VALUE over it."""
        try:
            options = json.loads(self.options)
        except ValueError:
            options = None
        if not isinstance(options, dict):
            raise InputError(f"--options: got {self.options!r}, expected a JSON object")
        for pair in self.option or []:
            name, equals, value = pair.partition("=")
            if not equals or not name:
                raise InputError(f"--option: got {pair!r}, expected NAME=VALUE")
            try:
                options[name] = json.loads(value)
            except ValueError:  # a bare word is text: map=generated
                options[name] = value
        return options


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is played: a world by its name, or an environment of a run."""

    world: str
    options: dict[str, Any]
    model: str
    """The base model."""
    run: RunDir | None = None
    """The run whose agent plays."""


@dataclass(frozen=True, kw_only=True)
class AgentOptions(WorldOptions):
    """The options by which a command takes a world's options and the agent that plays there."""

    environment: Annotated[
        str | None,
        typer.Option(
            "-e", "--environment", help="Of a run: take its world, options, base model and adapter."
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            help="Base model, as in spec.model.source; default: the run's, or builtin:tiny."
        ),
    ] = None
    adapter: Annotated[
        Path | None,
        typer.Option(help="Folder of a PEFT adapter; default: the run's, or the base alone."),
    ] = None
    credentials: Credentials = None
    threads: Threads = 1

    def find_setting(self, where: str) -> Setting:
        """What a command line means; given options go over those of the run."""
        folder = RunDir(Path(where))
        if self.environment is None and not folder.object.exists():
            return Setting(world=where, options=self.read(), model=self.model or BUILTIN)
        spec = folder.load().spec
        known = {each.name: each for each in spec.environments if not each.member}
        if not (chosen := known.get(self.environment or "")):
            came = self.environment or "nothing"
            raise InputError(f"--environment: got {came}, expected {' or '.join(known)}")
        options = {**chosen.options, **self.read()}
        model = self.model or spec.model.source
        return Setting(world=chosen.world, options=options, model=model, run=folder)

    def load_agent(self, setting: Setting) -> "Base":
        """The model that plays: the run's last adapter on its base, where none is named."""
        if self.adapter or not setting.run:
            return load_base(setting.model, self.adapter, self.threads)
        with TemporaryDirectory(prefix="hansa-play-") as scratch:
            from hansa.publish.pull import pull

            to, given = Path(scratch), self.credentials
            number, folder, _ = pull(setting.run, to, "last", None, given, say)
            say(f"adapter of round {number} of {setting.run.path}")
            return load_base(setting.model, folder, self.threads)


def resolve_name(world: str) -> str:
    """A world's name; a file's class, as ./hanoi.py:Hanoi, becomes a world of this process."""
    return world_files.offer_file(world, "WORLD") if ".py:" in world else world


def make_world(name: str, options: dict[str, Any]) -> World:
    """The world, or an InputError that names the wrong option."""
    from hansa_worlds import make

    name = resolve_name(name)
    with explain_world_errors(name):
        return make(name, options)


@contextmanager
def explain_world_errors(world: World | str) -> Iterator[None]:
    """Turn a world's errors into InputErrors, and a bug in it into the line that raised it."""
    try:
        yield
    except WorldError as error:
        raise InputError(str(error)) from error
    except Exception as error:
        name = world if isinstance(world, str) else world.name
        if isinstance(error, HansaError) or not _is_raised_in(world, error):
            raise
        raise HansaError(f"world {name}: {describe_bug(error)}") from error


def _is_raised_in(world: World | str, error: Exception) -> bool:
    """Whether the world's own package or file led to it."""
    point = WORLDS.find(world) if isinstance(world, str) else None
    module = point.module if point else type(world).__module__
    package = module.partition(".")[0]
    if package == "hansa_worlds":  # whose other modules every world uses
        return False
    if point and isinstance(error, SyntaxError | ImportError):
        return True
    frames = traceback.walk_tb(error.__traceback__)
    return any(f.f_globals.get("__name__", "").partition(".")[0] == package for f, _ in frames)


def choose_task(world: World, split: Split, asked: str | None, draw: random.Random) -> Task:
    """The task by its id (in any split) or its index (in this split, from 0); else a random one."""
    with explain_world_errors(world):
        tasks = world.tasks(split)
        if not tasks:
            raise InputError(f"--split: got {split}, of which world {world.name!r} has no tasks")
        if asked is None:
            return tasks[draw.randrange(len(tasks))]
        if asked.isdecimal() and int(asked) < len(tasks):
            return tasks[int(asked)]
        for each in (split, *SPLITS):
            for task in world.tasks(each):
                if task.id == asked:
                    return task
    raise InputError(
        f"--task: got {asked!r}, expected 0 to {len(tasks) - 1} or an id like {tasks[0].id}"
    )


def load_base(source: str, adapter: Path | None, threads: int) -> "Base":
    """The base, with the adapter loaded by PEFT itself: this also proves that the folder is one."""
    from dataclasses import replace

    from hansa_client.models import base_model

    if adapter and not adapter.is_dir():
        raise InputError(f"--adapter: got {adapter}, expected the folder of a PEFT adapter")
    # PEFT would ask the hub for what the folder lacks, by the folder's name.
    lacks = [n for n in (CONFIG, "adapter_model.*") if adapter and not any(adapter.glob(n))]
    if lacks:
        raise InputError(f"--adapter: {adapter} does not fit {source} (it has no {lacks[0]})")
    try:
        folder = base_model.resolve(source)
        say(f"loading {source}")
        base = base_model.load(source, folder, threads, for_peft=adapter is not None)
    except PermanentError as error:
        raise InputError(
            error.message.replace("spec.model.source", "--model"), error.hint
        ) from error
    if not adapter:
        return base
    from peft import PeftModel

    try:
        wrapped = PeftModel.from_pretrained(base.model, str(adapter), local_files_only=True)
    except Exception as error:  # PEFT raises many types on a folder that is not an adapter
        lines = [line.strip() for line in str(error).strip().splitlines()]
        reason = " ".join(lines[:2] if lines and lines[0].endswith(":") else lines[:1])
        raise InputError(f"--adapter: {adapter} does not fit {source} ({reason})") from error
    return replace(base, model=wrapped.merge_and_unload().eval())


def make_rollout_config(base: "Base", temperature: float, batch: int) -> "RolloutConfig":
    """How a model plays outside of a federation."""
    from hansa_client.rollout.episodes import MAX_LENGTH
    from hansa_client.rollout.live_episodes import RolloutConfig

    return RolloutConfig(
        temperature=temperature,
        max_length=base.cap_length(MAX_LENGTH),
        batch_episodes=batch,
        round=0,
        source="evaluation",
    )


STDOUT = Path("-")
"""Instead of a file: standard output."""


def check_target(option: str, out: Path, *, force: bool) -> None:
    """Refuse a file that exists or cannot be created, before any work begins."""
    if out == STDOUT:
        return
    if out.is_dir():
        raise InputError(f"{option}: got {out}, which is a folder, expected a file to write")
    if out.exists() and not force:
        raise InputError(f"{option}: got {out}, which exists", hint="--force writes over it")
    if not out.parent.is_dir():
        raise InputError(f"{option}: got {out}, whose folder does not exist")


def write_file(option: str, out: Path, data: bytes) -> str:
    """Write a file atomically, or to stdout; where it went, in words."""
    if out == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return "stdout"
    from hansa.core.files import replace_file

    try:
        replace_file(out, data)
    except OSError as error:
        raise InputError(f"{option}: got {out}: {error.strerror or error}") from None
    return str(out)


class ProgressCounter:
    """A counter on stderr for a terminal; pipes and logs get nothing of it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown = sys.stderr.isatty()
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Show it, at most ten times a second."""
        now = time.monotonic()
        if self._shown and now >= self._next:
            self._next = now + 0.1
            print(f"\r{done}/{total} {self._what}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the line."""
        if self._shown and self._next:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
