"""An OpenEnv server and this process's sessions there.

A reset may be repeated. A step is not: when its answer is lost, nobody knows whether the action
counted, and the episode is broken off. Every field of an answer is checked, for it goes into
training.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hansa.core.http import HttpError, Kind
from hansa_worlds.base import Observation
from hansa_worlds.errors import OptionError, WorldDown
from hansa_worlds.openenv.channel import CAPACITY_REACHED, Channel, ServerError
from hansa_worlds.remote.server import Address, RemoteServer, SessionHolder
from hansa_worlds.remote.wire import clean, format_error, read_reward

Holder = SessionHolder[Channel]
OVER_THE_ACTION = frozenset({"VALIDATION_ERROR", "EXECUTION_ERROR"})
"""Codes of errors that an action may have caused: they cost a turn where the session lives on."""
METADATA = "metadata"
"""Of an observation; nothing that the agent reads unless the options name it."""


class WrongFields(Exception):
    """The server's actions have other fields."""


class OpenEnvServer(RemoteServer[Channel]):
    """An OpenEnv server; a session is a channel."""

    def __init__(self, address: Address) -> None:
        super().__init__(address, "OpenEnv server")
        self._opened: set[Channel] = set()

    def begin(
        self, holder: Holder, task: Mapping[str, object], fields: Sequence[str]
    ) -> Observation:
        """Set a task up in the holder's session, or in a new one where that is lost."""
        known = holder.session or self._take()
        if known is not None:
            holder.session = known
            try:
                return self._reset(known, task, fields)
            except HttpError:
                self.leave(holder)
        try:
            return self._repeat(lambda: self._open(holder, task, fields))
        except HttpError as fault:
            raise self._explain_fault(fault) from None

    def _open(
        self, holder: Holder, task: Mapping[str, object], fields: Sequence[str]
    ) -> Observation:
        try:
            channel = Channel(self.address.url, self.address.timeout_seconds)
            holder.session = channel
            first = self._reset(channel, task, fields)
        except HttpError:
            self.leave(holder)
            raise
        with self._lock:
            self._opened.add(channel)
        return first

    def act(
        self, holder: Holder, action: Mapping[str, object], fields: Sequence[str]
    ) -> Observation:
        """Carry out one action, once; an error over the action itself is only a wasted turn.

        WrongFields where the server's actions have other fields than this one.
        """
        channel = holder.session
        if channel is None:
            raise WorldDown("openenv: the episode was broken off before")
        try:
            return parse_turn(channel.ask("step", action), fields)
        except ServerError as error:
            if error.code in OVER_THE_ACTION and self._is_alive(channel):
                if error.wrong_fields:
                    raise WrongFields from None
                return Observation(f"Error: {format_error(error.words)}")
            reason = str(error)
        except HttpError as fault:
            reason = str(fault)
        self.leave(holder)
        raise WorldDown(f"openenv: step brings {reason}")

    def leave(self, holder: Holder) -> None:
        """Close the holder's session: servers have few."""
        channel, holder.session = holder.session, None
        if channel is not None:
            with self._lock:
                self._opened.discard(channel)
            channel.close()

    def close(self) -> None:
        """End every session; a new episode opens new ones."""
        with self._lock:
            opened, self._opened = self._opened, set()
        self._idle.clear()
        for channel in opened:
            channel.close()

    def _reset(
        self, channel: Channel, task: Mapping[str, object], fields: Sequence[str]
    ) -> Observation:
        try:
            data = channel.ask("reset", task)
        except ServerError as error:
            kind: Kind = "busy" if error.code == CAPACITY_REACHED else "answer"
            raise HttpError(kind, str(error)) from None
        if fields and not any(_look_up(data.get("observation"), each)[0] for each in fields):
            raise OptionError(
                f"options.text_fields: got {', '.join(fields)}, expected fields of the observation"
                f" ({self.address.url}/schema lists them)"
            )
        return parse_turn(data, fields)

    def _is_alive(self, channel: Channel) -> bool:
        """Whether the session still answers: then it was the action that was wrong."""
        try:
            channel.ask("state")
        except (HttpError, ServerError):
            return False
        return True

    def _explain_fault(self, fault: HttpError) -> OptionError | WorldDown:
        """A server that is full of our own episodes stays so; anything else may pass."""
        ours = len(self._opened)
        if fault.kind == "busy" and ours:
            return OptionError(
                f"options.url: got {self.address.url}, a server that has no room beside our {ours}"
                " sessions, expected as many as episodes at once (exploration.batchEpisodes, or"
                " the server's max_concurrent_envs)"
            )
        if fault.kind == "busy":
            return WorldDown(
                f"options.url: got {self.address.url}, an OpenEnv server that is full ({fault}),"
                " expected one with a free session"
            )
        if fault.kind == "refused":
            return self._make_down_error(str(fault))
        return WorldDown(f"openenv: reset brings {fault}")


def parse_turn(data: Mapping[str, Any], fields: Sequence[str]) -> Observation:
    """The result of a reset or a step."""
    observed = data.get("observation")
    if not isinstance(observed, dict):
        raise HttpError("answer", "no observation")
    done = data.get("done", False)
    if not isinstance(done, bool):
        raise HttpError("answer", "no true or false in 'done'")
    reward = 0.0 if data.get("reward") is None else read_reward(data["reward"], "reward")
    return Observation(clean(_render_text(observed, fields)), reward, done)


def _render_text(observed: dict[str, Any], fields: Sequence[str]) -> str:
    """The chosen fields; by default all texts, or the whole observation if it has no text."""
    if fields:
        values = [_look_up(observed, field)[1] for field in fields]
    else:
        rest = {name: value for name, value in observed.items() if name != METADATA}
        values = [value for value in rest.values() if isinstance(value, str)] or [rest]
    return "\n".join(_to_text(value) for value in values if value not in (None, ""))


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _look_up(value: object, path: str) -> tuple[bool, Any]:
    """The value at a path such as messages.-1.content."""
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.removeprefix("-").isdecimal():
            try:
                value = value[int(part)]
            except (IndexError, ValueError):
                return False, None
        else:
            return False, None
    return True, value
