"""A world on an OpenEnv server: the server has the rules, this module the protocol.

options:
  url: http://127.0.0.1:8000
  action_field: message          # {"message": "<what the agent does>"}
  text_fields: [echoed_message]  # what the agent reads of an observation
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from hansa.core.http import HttpError
from hansa_worlds import seeds
from hansa_worlds.base import GENERIC_RULES, Observation, Split, Task
from hansa_worlds.errors import OptionError
from hansa_worlds.openenv.server import Holder, OpenEnvServer, WrongFields
from hansa_worlds.options import Options
from hansa_worlds.remote.server import Address, RemoteWorld, get_server, read_address
from hansa_worlds.remote.wire import check_url, parse_json

FORMS = ("text", "number", "json")
"""How an action is sent: as text, as a number, or as the JSON object that it spells."""


class OpenEnv(RemoteWorld):
    """Any environment that an OpenEnv server has."""

    name: ClassVar[str] = "openenv"

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self.rules = read.text("rules", GENERIC_RULES)
        self.brief = read.text("brief", "Reach the goal.")
        self._form = read.choice("action_form", "text", FORMS)
        self._field = _read_name(read, "action_field", "message")
        self._fields = _read_names(read, "text_fields")
        self._reset = read.mapping("reset")
        self._task_field = _read_name(read, "task_field", "seed")
        self._least = read.number("success", 0.0, 0.0, 1e6)
        self._ends = read.boolean("end_on_success", False)
        self._seeds = seeds.read_seeds(read)
        address = read_address(read, "http://127.0.0.1:8000")
        read.finish()
        seeds.check_disjoint(self._seeds)
        address["url"] = check_url(address["url"])
        self._server: OpenEnvServer = get_server(OpenEnvServer, Address(**address))
        self._holder = Holder()
        self._release_when_gone()

    def tasks(self, split: Split) -> Sequence[Task]:
        """The seeds of a split; the server decides whether two seeds differ."""
        return seeds.make_tasks(f"{self.name}-", split, self._seeds[split])

    def _begin(self, task: Task) -> str:
        wanted = {**self._reset, self._task_field: int(task.payload[0])}
        return self._server.begin(self._holder, wanted, self._fields).text

    def _act(self, action: str) -> Observation:
        sent = self._encode_action(action.encode("utf-8", "replace").decode("utf-8"))
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
        if self._ends and self._is_success(answer):
            return Observation(answer.text, answer.reward, True)
        return answer

    def _encode_action(self, action: str) -> dict[str, object] | None:
        """The server's action for the text, or None for an invalid one."""
        if self._form == "text":
            return {self._field: action}
        try:
            value = parse_json(action)
        except HttpError:
            return None
        if self._form == "json":
            return value if isinstance(value, dict) else None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return {self._field: value} if is_number else None


def _read_name(read: Options, option: str, default: str) -> str:
    value = read.text(option, default)
    if not value or len(value) > 200:
        read.refuse(option, repr(value[:40]), "the name of a field")
        return default
    return value


def _read_names(read: Options, option: str) -> tuple[str, ...]:
    fits = "a list of fields, as question or messages.-1.content"
    names = read.texts(option, fits, bool)
    if len(names) > 100:
        read.refuse(option, repr(list(names))[:200], fits)
    return names
