"""Any environment with Gymnasium's two methods, text in and text out, as a world.

    options:
      env: my_package.repair:RepairEnv     # a class, or an id that Gymnasium knows
      kwargs: {difficulty: 2}

`reset(seed=...)` gives (observation, info), `step(action)` gives (observation, reward, terminated,
truncated, info). A task is a seed. Package gymnasium is needed only for its own ids.

Options come from a manifest, which may be written by another party: `env` is imported only where
HANSA_WORLD_MODULES (`module`, with all below it, or `module:Class`, separated by commas) or the
entry point of an installed package has it. What an allowed class does is not checked.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from typing import Any, NoReturn

from hansa.api.assignment import ENV_WORLD_MODULES
from hansa_worlds import seeds
from hansa_worlds.base import GENERIC_RULES, Observation, Split, Task, World
from hansa_worlds.errors import NoPlayer, OptionError, WorldError
from hansa_worlds.options import Options

LONGEST_TEXT = 16_000
"""Characters of an observation that are kept."""
GROUP = "hansa.environments"
"""Entry-point group of packages that offer such names: `desk = "my_package.envs:TicketDesk"`."""

_FITS = "module:Class or an id such as module:Id-v0"


class Gymnasium(World):
    """Plays any environment with Gymnasium's methods.

    An exception of the environment is raised here too and aborts the episode; the next one is
    played in a new environment.
    """

    name = "gymnasium"

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self.rules = read.text("rules", GENERIC_RULES)
        self.brief = read.text("brief", "Reach the goal.")
        self._env_name = read.text("env", "")
        kwargs = read.mapping("kwargs")
        self._field = read.text("text_field", "")
        self._names = _read_names(read)
        self._least = read.number("success", 0.0, 0.0, 1e6)
        self._seeds = seeds.read_seeds(read)
        read.finish()
        seeds.check_disjoint(self._seeds)
        self._make = _make_factory(self._env_name, kwargs)
        self._env: Any = None

    def tasks(self, split: Split) -> Sequence[Task]:
        """The seeds of a split; the environment decides whether two seeds differ."""
        return seeds.make_tasks(f"{self._env_name}-", split, self._seeds[split])

    def _begin(self, task: Task) -> str:
        if self._env is None:
            self._env = self._call(self._make)
            self._check_actions()
        answer = self._call(self._env.reset, seed=int(task.payload[0]))
        if not isinstance(answer, tuple) or len(answer) != 2:
            self._abort("reset gives no pair of observation and info")
        return self._read_text(answer[0])

    def _act(self, action: str) -> Observation:
        if self._env is None:
            self._abort("the episode was broken off before")
        move = self._parse_move(action)
        if move is None:
            names = f" Actions: {', '.join(self._names)}." if self._names else ""
            return Observation(f"That is no action here.{names}")
        answer = self._call(self._env.step, move)
        if not isinstance(answer, tuple) or len(answer) != 5:
            self._abort("step gives no observation, reward, terminated, truncated and info")
        observed, reward, terminated, truncated, _ = answer
        self._solved = bool(terminated)
        return Observation(
            self._read_text(observed), self._read_reward(reward), bool(terminated or truncated)
        )

    def _is_success(self, last: Observation) -> bool:
        """Ended by the environment itself, with enough reward: time that ran out is no success."""
        return self._solved and super()._is_success(last)

    def legal(self) -> list[str]:
        """The names of the actions, where the options give them."""
        if not self._names:
            raise NoPlayer(f"environment {self._env_name} does not list its actions")
        return list(self._names)

    def close(self) -> None:
        """Close the environment; the next episode makes another."""
        env, self._env = self._env, None
        if hasattr(env, "close"):
            with suppress(Exception):  # it is not used again
                env.close()

    def _check_actions(self) -> None:
        """Numbered actions need as many names, or no action could be chosen."""
        count = getattr(getattr(self._env, "action_space", None), "n", None)
        if count is not None and int(count) != len(self._names):
            self.close()
            raise OptionError(
                f"options.actions: got {len(self._names)} names, expected {int(count)}, one for"
                f" each action of {self._env_name}"
            )

    def _parse_move(self, action: str) -> object | None:
        """The environment's action for the text, or None for an invalid one."""
        if self._names:
            places = {name.lower(): place for place, name in enumerate(self._names)}
            return places.get(action.lower())
        space: Any = getattr(self._env, "action_space", None)
        if space is not None and not self._call(space.contains, action):
            return None
        return action

    def _read_text(self, observed: object) -> str:
        if self._field and isinstance(observed, Mapping):
            observed = observed.get(self._field)
        if not isinstance(observed, str):
            raise OptionError(
                f"options.env: got {self._env_name!r}, whose observation is a"
                f" {type(observed).__name__}, expected text, or a mapping and options.text_field"
            )
        return observed[:LONGEST_TEXT]

    def _read_reward(self, reward: object) -> float:
        try:
            number = float(reward)  # type: ignore[arg-type]  # NumPy's numbers too
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            self._abort("step gives a reward that is not a number")
        return number

    def _call(self, function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception:
            self.close()  # its state is unknown
            raise

    def _abort(self, reason: str) -> NoReturn:
        self.close()
        raise WorldError(f"environment {self._env_name}: {reason}")


def _make_factory(name: str, kwargs: Mapping[str, object]) -> Callable[[], Any]:
    """What makes the environment: a class of an allowed module, or Gymnasium for its ids."""
    if not name:
        raise OptionError(f"options.env: got nothing, expected {_FITS}")
    module, colon, attribute = name.partition(":")
    if colon:
        found = _import_attribute(name, module, attribute)
        if found is not None:
            kind = _require_environment(name, found)
            _check_kwargs(name, kind, kwargs)
            return lambda: kind(**kwargs)
    return _make_factory_by_id(name, attribute if colon else name, kwargs)


def _make_factory_by_id(name: str, id_: str, kwargs: Mapping[str, object]) -> Callable[[], Any]:
    """From Gymnasium's registry. It is given no `module:` prefix: it would import that module."""
    try:
        library = import_module("gymnasium")
    except ImportError as error:
        raise OptionError(_format_error(name, "an id, which needs package gymnasium")) from error
    try:
        spec = library.spec(id_)
    except Exception as error:
        raise OptionError(
            _format_error(name, "which neither a module nor Gymnasium has")
        ) from error
    kind = _load_class_of_id(name, spec.entry_point)
    for_make = signature(library.make).parameters
    rest = {key: value for key, value in kwargs.items() if key not in for_make}
    _check_kwargs(name, kind, {**spec.kwargs, **rest})
    return lambda: library.make(spec, disable_env_checker=True, **kwargs)


def _load_class_of_id(name: str, made_by: Any) -> type[Any]:
    """The class of an id, imported only now where the registry has its name."""
    if isinstance(made_by, str):
        module, _, attribute = made_by.partition(":")
        return _require_environment(name, _import_attribute(name, module, attribute))
    kind = _require_environment(name, made_by)
    if not _is_allowed(kind.__module__, kind.__name__):
        raise _build_refusal(name)
    return kind


def _import_attribute(name: str, module: str, attribute: str) -> Any:
    """A module's attribute, or None; a module that is not allowed is not imported."""
    if not _is_allowed(module, attribute):
        raise _build_refusal(name)
    try:
        return getattr(import_module(module), attribute, None)
    except ImportError as error:
        raise OptionError(_format_error(name, f"but {error}")) from error


def _is_allowed(module: str, attribute: str) -> bool:
    """Whether a module may be imported for this attribute."""
    given = os.environ.get(ENV_WORLD_MODULES, "").split(",")
    offered = [point.value for point in entry_points(group=GROUP)]
    names = {name.replace(" ", "") for name in (*given, *offered)} - {""}
    below = any(module == name or module.startswith(f"{name}.") for name in names)
    return below or f"{module}:{attribute}" in names


def _require_environment(name: str, found: Any) -> type[Any]:
    """The class of an environment; nothing else is ever called."""
    if not isinstance(found, type) or not all(
        callable(getattr(found, method, None)) for method in ("reset", "step")
    ):
        raise OptionError(_format_error(name, "which is no class with reset and step"))
    return found


def _build_refusal(name: str) -> OptionError:
    now = os.environ.get(ENV_WORLD_MODULES, "").strip() or "nothing"
    return OptionError(
        f"options.env: got {name!r}, expected a class or id of a module in {ENV_WORLD_MODULES} "
        f"(now {now}), or one that a package offers by entry point {GROUP}"
    )


def _check_kwargs(name: str, maker: Callable[..., Any], kwargs: Mapping[str, object]) -> None:
    """Refuse unknown and missing arguments; their values are left to the environment."""
    try:
        parameters = signature(maker).parameters.values()
    except (TypeError, ValueError):  # some classes written in C have no signature
        return
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    takes = [p.name for p in named]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = [] if takes_any else sorted(kwargs.keys() - set(takes))
    absent = [p.name for p in named if p.default is p.empty and p.name not in kwargs]
    if unknown or absent:
        got = ", ".join([*unknown, *(f"no {one}" for one in absent)])
        fits = ", ".join(takes) or "nothing"
        raise OptionError(f"options.kwargs: got {got}, expected {fits} (what {name} takes)")


def _format_error(name: str, why: str) -> str:
    return f"options.env: got {name!r}, {why}, expected {_FITS}"


def _read_names(read: Options) -> tuple[str, ...]:
    """Names of numbered actions, the first for 0: one line each, and no two alike."""
    fits = "a list of distinct names, the first for action 0"
    names = read.texts("actions", fits, lambda name: bool(name) and name == " ".join(name.split()))
    if len({name.lower() for name in names}) != len(names):
        read.refuse("actions", repr(list(names)), fits)
    return names
