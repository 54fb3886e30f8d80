"""What AgentGym's servers answer, each with one of our worlds behind it.

Written from AgentGym's own servers, not from the table under test. An error inside a handler comes
back as AgentGym has it: most servers answer 200 with {"error": ...}, WebShop and the tools 500.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hansa_worlds import Task, World, make
from hansa_worlds.base import SPLITS

Body = dict[str, Any]


class Invalid(Exception):
    """A body that FastAPI would refuse."""


class Missing(Exception):
    """A path that the server does not have."""


class Game:
    """What most servers share: sessions by number, and errors that come with status 200."""

    prefix = ""
    world = "maze"
    options: Body = {"prompt": "none", "max_turns": 60}  # noqa: RUF012
    session = "id"
    task = "data_idx"
    errors_are_200 = True
    has_close = True

    def __init__(self) -> None:
        self.sessions: dict[int, World | None] = {}
        self.texts: dict[int, str] = {}
        self.opened = 0

    def handle(self, method: str, path: str, body: Body) -> Any:
        name = f"{method.lower()}_{path.strip('/')}"
        handler: Callable[[Body], Any] | None = getattr(self, name, None)
        if handler is None or (name == "post_close" and not self.has_close):
            raise Missing(path)
        if not self.errors_are_200 or name == "post_close":
            return handler(body)
        try:
            return handler(body)
        except Invalid:
            raise
        except Exception as error:  # as the servers do
            return {"error": str(error)}

    # -- requests ---------------------------------------------------------------------------------

    def post_create(self, body: Body) -> Any:
        return {"id": self._new()}

    def post_reset(self, body: Body) -> Any:
        number = self._number(body)
        return self.first(number, self._start(number, _int(body, self.task)))

    def post_step(self, body: Body) -> Any:
        number = self._number(body)
        if not isinstance(body.get("action"), str):
            raise Invalid("action")
        world = self._world(number)
        seen = world.step(self.read(body["action"]))
        self.texts[number] = seen.text
        reward = self.reward(seen.reward, world) if seen.done and world.success else 0
        return self.turn(number, world, reward, seen.done)

    def get_observation(self, body: Body) -> Any:
        number = self._number(body)
        self._world(number)
        return self.texts[number]

    def post_close(self, body: Body) -> Any:
        return self.sessions.pop(self._number(body), None) is not None

    # -- what differs -----------------------------------------------------------------------------

    def read(self, action: str) -> str:
        return action

    def first(self, number: int, text: str) -> Any:
        return {"id": number, "observation": text, "done": False, "reward": 0}

    def turn(self, number: int, world: World, reward: float, done: bool) -> Any:
        return {"observation": self.texts[number], "reward": reward, "done": done}

    def reward(self, reward: float, world: World) -> float:
        return 1

    # -- sessions ---------------------------------------------------------------------------------

    def _new(self) -> int:
        self.opened += 1
        self.sessions[self.opened - 1] = None
        return self.opened - 1

    def _number(self, body: Body) -> int:
        return _int(body, self.session)

    def _world(self, number: int) -> World:
        if number not in self.sessions:
            raise NameError(f"The id {number} is not valid.")
        world = self.sessions[number]
        if world is None:
            raise KeyError(number)
        return world

    def _start(self, number: int, task: int) -> str:
        if number not in self.sessions:
            raise NameError(f"The id {number} is not valid.")
        world = make(self.world, self.options)
        self.sessions[number] = world
        self.texts[number] = world.start(nth_task(world, task)).text
        return self.texts[number]


class TextCraftGame(Game):
    world = "textcraft"

    def post_create(self, body: Body) -> Any:
        number = self._new()
        return self.first(number, self._start(number, number))


class BabyAIGame(Game):
    world = "babyai"

    def first(self, number: int, text: str) -> Any:
        return {**self.turn(number, self._world(number), 0, False), "deleted": False}

    def turn(self, number: int, world: World, reward: float, done: bool) -> Any:
        listed = ", ".join(f'"{move}"' for move in [*self._moves(world), "check available actions"])
        text = f"{self.texts[number]}\nAvailable actions: [{listed}]"
        return {"observation": text, "reward": reward, "score": reward, "done": done}

    def _moves(self, world: World) -> list[str]:
        return [] if world._done else world.legal()

    def get_observation(self, body: Body) -> Any:
        return {"observation": super().get_observation(body), "reward": 0, "score": 0}

    def reward(self, reward: float, world: World) -> float:
        return 1 - 0.9 * world._turns / 64


class MazeGame(Game):
    prefix = "/maze"
    task = "game"
    has_close = False

    def get_available_actions(self, body: Body) -> Any:
        return ["move left", "move right", "move up", "move down"]

    def post_reset(self, body: Body) -> Any:
        if _int(body, "game") > 25:
            raise NameError(f"The game {body['game']} is not valid.")
        return super().post_reset(body)

    def first(self, number: int, text: str) -> Any:
        return {"observation": text}


class WordleGame(Game):
    prefix = "/wordle"
    world = "wordle"
    task = "seed"
    has_close = False

    def get_filtered_vocab(self, body: Body) -> Any:
        return list(make("wordle", self.options).words)  # type: ignore[attr-defined]

    def first(self, number: int, text: str) -> Any:
        return {"id": number, "observation": "Let's start Wordle!"}


class WebShopGame(Game):
    world = "webshop"
    session = "env_idx"
    task = "session_id"
    errors_are_200 = False
    has_close = False

    def post_create(self, body: Body) -> Any:
        return self._new()

    def first(self, number: int, text: str) -> Any:
        return [text, None]

    def turn(self, number: int, world: World, reward: float, done: bool) -> Any:
        return {"state": self.texts[number], "reward": float(reward), "done": done, "info": None}


class ToolGame(Game):
    session = "env_idx"
    task = "id"
    errors_are_200 = False
    has_close = False

    def post_create(self, body: Body) -> Any:
        _int(body, "id")
        return self._new()

    def first(self, number: int, text: str) -> Any:
        return text

    def read(self, action: str) -> str:
        return action if action.startswith("Action: ") else "format error"


class AlfworldGame(Game):
    task = "game"
    has_close = False

    def post_reset(self, body: Body) -> Any:
        if body.get("world_type") not in ("Text", "Embody", "Hybrid"):
            raise Invalid("world_type")
        return super().post_reset(body)

    def first(self, number: int, text: str) -> Any:
        moves = self._world(number).legal()
        return {"id": number, "observation": text, "available_actions": moves, "task_type": "x"}

    def turn(self, number: int, world: World, reward: float, done: bool) -> Any:
        moves = [] if done else world.legal()
        return {**super().turn(number, world, reward, done), "available_actions": moves}


class SciworldGame(Game):
    def first(self, number: int, text: str) -> Any:
        return {
            "task_name": "find-goal",
            "var_num": 0,
            "task_description": "Find the goal.",
            "observation": text,
            "reward": 0,
            "score": 0,
            "deleted": False,
            "done": False,
        }

    def turn(self, number: int, world: World, reward: float, done: bool) -> Any:
        return {**super().turn(number, world, reward, done), "score": 100 * reward}


class SqlGame(WebShopGame):
    """Holds eight sessions, and gives the first of them away again to the ninth who asks."""

    world = "maze"
    task = "item_id"

    def post_create(self, body: Body) -> Any:
        return self._new() if len(self.sessions) < 8 else 0


class WebArenaGame(Game):
    session = "env_idx"
    task = "idx"

    def post_create(self, body: Body) -> Any:
        return {"env_idx": self._new()}

    def post_reset(self, body: Body) -> Any:
        _int(body, "seed")
        return super().post_reset(body)

    def read(self, action: str) -> str:
        return action.removeprefix("```").removesuffix("```")

    def turn(self, number: int, world: World, reward: float, done: bool) -> Any:
        text = self.texts[number]
        return {
            "observation": text,
            "reward": reward,
            "terminated": done,
            "truncated": False,
            "info": {},
        }


GAMES: dict[str, tuple[type[Game], ...]] = {
    "academia": (ToolGame,),
    "alfworld": (AlfworldGame,),
    "babyai": (BabyAIGame,),
    "generic": (Game,),
    "maze": (MazeGame, WordleGame),
    "movie": (ToolGame,),
    "sciworld": (SciworldGame,),
    "searchqa": (ToolGame,),
    "sheet": (ToolGame,),
    "sqlgym": (SqlGame,),
    "textcraft": (TextCraftGame,),
    "todo": (ToolGame,),
    "weather": (ToolGame,),
    "webarena": (WebArenaGame,),
    "webshop": (WebShopGame,),
    "wordle": (MazeGame, WordleGame),
}


def nth_task(world: World, number: int) -> Task:
    """Any task of any split: the server's numbers know nothing of ours."""
    tasks = [world.tasks(split) for split in SPLITS]
    number %= sum(map(len, tasks))
    for some in tasks:
        if number < len(some):
            return some[number]
        number -= len(some)
    raise AssertionError


def _int(body: Body, name: str) -> int:
    value = body.get(name)
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if not isinstance(value, int):
        raise Invalid(name)
    return value
