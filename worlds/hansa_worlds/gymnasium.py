"""Any environment with Gymnasium's two methods, text in and text out, as a world.

    options:
      env: my_package.repair:RepairEnv     # a class, or an id that Gymnasium knows
      kwargs: {difficulty: 2}

`reset(seed=...)` gives (observation, info), `step(action)` gives (observation, reward, terminated,
truncated, info). A task is a seed. Package gymnasium is needed only for its own ids. Nothing is
imported or made for `env` but what the image's or the machine's owner allows (allowed.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from inspect import signature
from typing import Any, NoReturn

from hansa_worlds.allowed import allowed_words, is_allowed
from hansa_worlds.base import SPLITS, Observation, Split, Task, TaskList, World
from hansa_worlds.errors import NoPlayer, OptionError, WorldError
from hansa_worlds.options import Options
from hansa_worlds.ranges import check_apart, read_range

LONGEST_TEXT = 16_000
"""Characters of an observation that are kept."""
SEEDS: dict[Split, tuple[int, int]] = {
    "test": (0, 1_000),
    "validation": (1_000, 2_000),
    "train": (2_000, 10_000),
}
"""Seeds of each split: the first, and the one after the last."""

_FITS = "module:Class or an id such as module:Id-v0"
_RULES = """You reach a goal in a world of text. Each turn you read what happened.
Answer each observation as "Thought: <why>", then a line "Action: <one action>"."""


class Gymnasium(World):
    """Plays an environment of somebody else's.

    What the environment raises is raised here too and breaks the episode off; the next one is
    played in a new environment.
    """

    name = "gymnasium"

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self.rules = read.text("rules", _RULES)
        self.brief = read.text("brief", "Reach the goal.")
        self._env_name = read.text("env", "")
        kwargs = _mapping(read, "kwargs")
        self._field = read.text("text_field", "")
        self._names = _names(read)
        self._least = read.number("success", 0.0, 0.0, 1e6)
        self._seeds = {split: read_range(read, split, SEEDS[split]) for split in SPLITS}
        read.finish()
        check_apart(self._seeds)
        self._make = _factory(self._env_name, kwargs)
        self._env: Any = None

    def tasks(self, split: Split) -> Sequence[Task]:
        """The seeds of a split; whether two seeds differ is the environment's business."""
        seeds = self._seeds[split]
        return TaskList(
            len(seeds), lambda i: Task(f"{self._env_name}-{seeds[i]}", split, (str(seeds[i]),))
        )

    def _begin(self, task: Task) -> str:
        if self._env is None:
            self._env = self._call(self._make)
            self._check_actions()
        answer = self._call(self._env.reset, seed=int(task.payload[0]))
        if not isinstance(answer, tuple) or len(answer) != 2:
            self._break("reset gives no pair of observation and info")
        return self._text(answer[0])

    def _act(self, action: str) -> Observation:
        if self._env is None:
            self._break("the episode was broken off before")
        move = self._move(action)
        if move is None:
            names = f" Actions: {', '.join(self._names)}." if self._names else ""
            return Observation(f"That is no action here.{names}")
        answer = self._call(self._env.step, move)
        if not isinstance(answer, tuple) or len(answer) != 5:
            self._break("step gives no observation, reward, terminated, truncated and info")
        observed, reward, terminated, truncated, _ = answer
        self._solved = bool(terminated)
        return Observation(
            self._text(observed), self._number(reward), bool(terminated or truncated)
        )

    def _is_success(self, last: Observation) -> bool:
        """Ended by the environment itself, with enough reward: time that ran out is no success."""
        return self._solved and last.reward > 0 and last.reward >= self._least

    def legal(self) -> list[str]:
        """The names of the actions, where the options give them."""
        if not self._names:
            raise NoPlayer(f"environment {self._env_name} does not list its actions")
        return list(self._names)

    def snapshot(self) -> object:
        """A copy, of environments that can be copied."""
        try:
            return super().snapshot()
        except Exception as error:
            raise NoPlayer(f"environment {self._env_name} cannot be copied") from error

    def close(self) -> None:
        """Close the environment; the next episode makes another."""
        env, self._env = self._env, None
        if hasattr(env, "close"):
            with suppress(Exception):  # nothing depends on it any more
                env.close()

    def _check_actions(self) -> None:
        """Numbered actions need as many names, or every action would be none."""
        count = getattr(getattr(self._env, "action_space", None), "n", None)
        if count is not None and int(count) != len(self._names):
            self.close()
            raise OptionError(
                f"options.actions: got {len(self._names)} names, expected {int(count)}, one for"
                f" each action of {self._env_name}"
            )

    def _move(self, action: str) -> object | None:
        """What the environment takes for the text, or None where it would take nothing."""
        if self._names:
            places = {name.lower(): place for place, name in enumerate(self._names)}
            return places.get(action.lower())
        space: Any = getattr(self._env, "action_space", None)
        if space is not None and not self._call(space.contains, action):
            return None
        return action

    def _text(self, observed: object) -> str:
        if self._field and isinstance(observed, Mapping):
            observed = observed.get(self._field)
        if not isinstance(observed, str):
            raise OptionError(
                f"options.env: got {self._env_name!r}, whose observation is a"
                f" {type(observed).__name__}, expected text, or a mapping and options.text_field"
            )
        return observed[:LONGEST_TEXT]

    def _number(self, reward: object) -> float:
        try:
            number = float(reward)  # type: ignore[arg-type]  # NumPy's numbers too
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            self._break("step gives a reward that is no number")
        return number

    def _call(self, function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception:
            self.close()  # whatever state it is in
            self._done = True
            raise

    def _break(self, reason: str) -> NoReturn:
        self.close()
        self._done = True
        raise WorldError(f"environment {self._env_name}: {reason}")


def _factory(name: str, kwargs: Mapping[str, object]) -> Callable[[], Any]:
    """What makes the environment: a class of an allowed module, or Gymnasium for its ids."""
    if not name:
        raise OptionError(f"options.env: got nothing, expected {_FITS}")
    module, colon, attribute = name.partition(":")
    if colon:
        found = _imported(name, module, attribute)
        if found is not None:
            kind = _environment(name, found)
            _check_kwargs(name, kind, kwargs)
            return lambda: kind(**kwargs)
    return _by_id(name, attribute if colon else name, kwargs)


def _by_id(name: str, id_: str, kwargs: Mapping[str, object]) -> Callable[[], Any]:
    """By Gymnasium, which never gets to see a module's name: it would import it."""
    try:
        library = import_module("gymnasium")
    except ImportError as error:
        raise OptionError(_fits(name, "an id, which needs package gymnasium")) from error
    try:
        spec = library.spec(id_)
    except Exception as error:
        raise OptionError(_fits(name, "which neither a module nor Gymnasium has")) from error
    kind = _class_of_id(name, spec.entry_point)
    for_make = signature(library.make).parameters
    rest = {key: value for key, value in kwargs.items() if key not in for_make}
    _check_kwargs(name, kind, {**spec.kwargs, **rest})
    return lambda: library.make(spec, disable_env_checker=True, **kwargs)


def _class_of_id(name: str, made_by: Any) -> type[Any]:
    """What makes an id: a class, or the name of one that is imported only now."""
    if isinstance(made_by, str):
        module, _, attribute = made_by.partition(":")
        return _environment(name, _imported(name, module, attribute))
    kind = _environment(name, made_by)
    if not is_allowed(kind.__module__, kind.__name__):
        raise _not_allowed(name)
    return kind


def _imported(name: str, module: str, attribute: str) -> Any:
    """What a module has under that name, or None; nothing is imported that is not allowed."""
    if not is_allowed(module, attribute):
        raise _not_allowed(name)
    try:
        return getattr(import_module(module), attribute, None)
    except ImportError as error:
        raise OptionError(_fits(name, f"but {error}")) from error


def _environment(name: str, found: Any) -> type[Any]:
    """The class of an environment; nothing else is ever called."""
    if not isinstance(found, type) or not all(
        callable(getattr(found, method, None)) for method in ("reset", "step")
    ):
        raise OptionError(_fits(name, "which is no class with reset and step"))
    return found


def _not_allowed(name: str) -> OptionError:
    return OptionError(f"options.env: got {name!r}, expected {allowed_words()}")


def _check_kwargs(name: str, maker: Callable[..., Any], kwargs: Mapping[str, object]) -> None:
    """Refuse arguments that a maker does not take, or lacks; what they hold is its own affair."""
    try:
        parameters = signature(maker).parameters.values()
    except (TypeError, ValueError):  # some classes written in C do not say
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


def _fits(name: str, why: str) -> str:
    return f"options.env: got {name!r}, {why}, expected {_FITS}"


def _mapping(read: Options, name: str) -> dict[str, object]:
    value = read.anything(name, {})
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        read.refuse(name, repr(value), "a mapping of names to values")
        return {}
    return dict(value)


def _names(read: Options) -> tuple[str, ...]:
    """Names of numbered actions, the first for 0: one line each, and no two alike."""
    value = read.anything("actions", [])
    fits = "a list of distinct names, the first for action 0"
    if not isinstance(value, list | tuple):
        read.refuse("actions", repr(value), fits)
        return ()
    for name in value:
        if not isinstance(name, str) or not name or name != " ".join(name.split()):
            read.refuse("actions", f"{name!r} in it", fits)
            return ()
    if len({name.lower() for name in value}) != len(value):
        read.refuse("actions", repr(value), fits)
    return tuple(value)
