"""A world that is played on an OpenEnv server: the server has the rules, we have the protocol.

options:
  url: http://127.0.0.1:8000
  action_field: message          # {"message": "<what the agent does>"}
  text_fields: [echoed_message]  # what the agent reads of an observation
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping, Sequence
from typing import ClassVar, NoReturn

from hansa_worlds import seeds
from hansa_worlds.base import Observation, Split, Task, World
from hansa_worlds.errors import NoPlayer, OptionError, WorldDown
from hansa_worlds.openenv.server import ChannelHolder, OpenEnvAddress, WrongFields, server_at
from hansa_worlds.options import Options
from hansa_worlds.remote.url import check_url

FORMS = ("text", "number", "json")
"""How an action is sent: as it is, as a number, or as the JSON object that it is."""
_RULES = """You reach a goal in a world of text. Each turn you read what happened.
Answer each observation as "Thought: <why>", then a line "Action: <one action>"."""


class OpenEnv(World):
    """Any environment that an OpenEnv server has.

    A world keeps its session from episode to episode until it is closed; that of a world that is
    gone goes to the next one of the process. Equal tasks give equal episodes only as far as the
    server heeds a seed.
    """

    name: ClassVar[str] = "openenv"
    waits: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self.rules = read.text("rules", _RULES)
        self.brief = read.text("brief", "Reach the goal.")
        self._form = read.choice("action_form", "text", FORMS)
        self._field = _name(read, "action_field", "message")
        self._fields = _names(read, "text_fields")
        self._reset = read.mapping("reset")
        self._task_field = _name(read, "task_field", "seed")
        self._least = read.number("success", 0.0, 0.0, 1e6)
        self._ends = read.boolean("end_on_success", False)
        self._seeds = seeds.read_seeds(read)
        address = _read_address(read)
        read.finish()
        seeds.check_apart(self._seeds)
        self._server = server_at(address)
        self._holder = ChannelHolder()
        weakref.finalize(self, self._server.release, self._holder).atexit = False

    def tasks(self, split: Split) -> Sequence[Task]:
        """The seeds of a split; whether two seeds differ is the server's business."""
        return seeds.tasks(self.name, split, self._seeds[split])

    def _begin(self, task: Task) -> str:
        wanted = {**self._reset, self._task_field: int(task.payload[0])}
        return self._server.begin(self._holder, wanted, self._fields).text

    def _act(self, action: str) -> Observation:
        sent = self._action(action.encode("utf-8", "replace").decode("utf-8"))
        if sent is None:
            fits = "one number" if self._form == "number" else "one JSON object"
            return Observation(f"That is no action here: give {fits}.")
        try:
            answer = self._server.act(self._holder, sent, self._fields)
        except WrongFields:
            if self._form == "json":  # the agent's own words
                return Observation("That is no action here: it needs other fields.")
            raise OptionError(
                f"options.action_field: got {self._field!r}, expected the field of the server's"
                f" actions ({self._server.address.url}/schema lists them), or action_form: json"
            ) from None
        except WorldDown:
            self._done = True
            raise
        if self._ends and self._is_success(answer):
            return Observation(answer.text, answer.reward, True)
        return answer

    def _action(self, action: str) -> dict[str, object] | None:
        """What the server takes for the text, or None where it would take nothing."""
        if self._form == "text":
            return {self._field: action}
        try:
            value = json.loads(action, parse_constant=_no_number)
        except (ValueError, RecursionError):
            return None
        if self._form == "json":
            return value if isinstance(value, dict) else None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return {self._field: value} if is_number else None

    def _is_success(self, last: Observation) -> bool:
        return last.reward > 0 and last.reward >= self._least

    def snapshot(self) -> object:
        """There is none: the episode is on the server."""
        raise NoPlayer("an episode on an OpenEnv server cannot be kept")

    def restore(self, snapshot: object) -> None:
        """There is no snapshot to go on from."""
        raise NoPlayer("an episode on an OpenEnv server cannot be gone back to")

    def close(self) -> None:
        """Close the session: servers have few."""
        self._server.leave(self._holder)


def _read_address(read: Options) -> OpenEnvAddress:
    given = read.text("url", "http://127.0.0.1:8000")
    address = OpenEnvAddress(
        url=given,
        timeout_seconds=read.number("timeout_seconds", 60.0, 0.05, 3600.0),
        start_timeout_seconds=read.number("start_timeout_seconds", 120.0, 0.0, 3600.0),
        retries=read.integer("retries", 3, 0, 10),
    )
    read.check()
    return OpenEnvAddress(**{**vars(address), "url": check_url(given)})


def _name(read: Options, option: str, default: str) -> str:
    value = read.text(option, default)
    if not value or len(value) > 200:
        read.refuse(option, repr(value[:40]), "the name of a field")
        return default
    return value


def _names(read: Options, option: str) -> tuple[str, ...]:
    value = read.anything(option, [])
    fits = "a list of fields, as question or messages.-1.content"
    if not isinstance(value, list | tuple) or len(value) > 100:
        read.refuse(option, repr(value)[:200], fits)
        return ()
    for name in value:
        if not isinstance(name, str) or not name:
            read.refuse(option, f"{name!r} in it", fits)
            return ()
    return tuple(value)


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)
