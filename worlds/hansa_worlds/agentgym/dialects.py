"""How each of AgentGym's servers spells the same five requests: a table, one entry each.

A server that is not listed is played as `generic` if it speaks like most of them do: /create,
/reset {id, data_idx}, /step {id, action}, /observation?id= and /close {id}.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hansa_worlds.base import Split

WORDS_ONLY = r"[^A-Za-z0-9, ]+"
"""What AgentGym's own client cuts out of an action of BabyAI and TextCraft."""
CONTROLS = r"[\x00-\x1f\x7f]+"
"""What no action of any server holds."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The words of one server, and what counts as success there."""

    tasks: tuple[int, int]
    """Task numbers of the server: the first, and the one after the last."""
    splits: Mapping[Split, tuple[int, int]] | None = None
    """Where the server's own data has splits; otherwise the tasks are shared out evenly, since many
    servers sort them by kind or by difficulty."""
    max_turns: int = 20
    """AgentGym's own limit where it has one."""
    prefix: str = ""
    """Path before every request: two games of one server have one each."""
    session: str = "id"
    """Field that names the session."""
    task: str = "data_idx"
    """Field of /reset that names the task."""
    create: Mapping[str, object] = field(default_factory=dict)
    """Body of /create."""
    reset: Mapping[str, object] = field(default_factory=dict)
    """What /reset wants beside session and task."""
    text: str = "observation"
    """Field of an answer that holds what the agent reads."""
    failed: str = ""
    """Text of an answer to /reset that failed."""
    opening: str = ""
    """Field of the answer to /reset that comes before the text."""
    reward: str = "reward"
    """Field of an answer that holds the reward."""
    full_reward: float = 1.0
    """What the server gives for a whole success; rewards are divided by it."""
    done: tuple[str, ...] = ("done",)
    """Fields of an answer, any of which ends the episode."""
    success: float = 1.0
    """Last reward from which an ended episode is a success; 0 is any reward above 0."""
    closes: bool = True
    """Whether the server has /close."""
    cuts: str = CONTROLS
    """What is cut out of an action before it is sent."""
    sends: str = "{}"
    """Format of the action in the request."""
    moves: tuple[str, ...] = ()
    """Every action, where there are few and always the same."""
    moves_field: str = ""
    """Field of an answer that lists the actions."""
    moves_in_text: bool = False
    """Whether a text ends with a list of the actions."""
    words: str = ""
    """Path that lists the words to guess from; the agent must read them first."""
    rules: str = ""
    """Which rules of `rules.py` the agent reads; empty: those of the dialect's own name."""


_TOOL = Dialect(
    tasks=(0, 20),
    session="env_idx",
    task="id",
    create={"id": 0},
    closes=False,
    sends="Action: {}",
    rules="tool",
)
"""Weather, movie, academia, todo and sheet: /reset answers the text itself."""

DIALECTS: dict[str, Dialect] = {
    "academia": _TOOL,
    "alfworld": Dialect(
        tasks=(0, 2620),
        splits={"train": (0, 2320), "validation": (2320, 2420), "test": (2420, 2620)},
        max_turns=30,
        task="game",
        reset={"world_type": "Text"},
        moves_field="available_actions",
        closes=False,
    ),
    # The reward is 1 - 0.9 * steps / most steps: never 1, so any reward at the end is success.
    # Goals reached for 0.5 or less do not end an episode there, and so count as none.
    # Level is number % 40 + 1, seed is number // 40.
    "babyai": Dialect(
        tasks=(0, 1000),
        success=0.0,
        cuts=WORDS_ONLY,
        moves_in_text=True,
    ),
    "generic": Dialect(tasks=(0, 1000), success=0.0),
    # 25 starts in one maze; the server's 26th is the goal itself.
    "maze": Dialect(
        tasks=(0, 25),
        max_turns=15,
        prefix="/maze",
        task="game",
        closes=False,
        moves=("move up", "move down", "move left", "move right"),
    ),
    "movie": replace(_TOOL, tasks=(0, 238)),
    "sciworld": Dialect(
        tasks=(0, 4600),
        max_turns=30,
        opening="task_description",
        reward="score",
        full_reward=100.0,
    ),
    "searchqa": Dialect(
        tasks=(0, 1000),
        max_turns=10,
        session="env_idx",
        task="id",
        create={"id": 0},
    ),
    "sheet": _TOOL,
    # BIRD's training questions, then those of its development set.
    "sqlgym": Dialect(
        tasks=(0, 10962),
        splits={"train": (0, 3000), "validation": (3000, 3200), "test": (9428, 9628)},
        max_turns=1,
        session="env_idx",
        task="item_id",
        text="state",
        closes=False,
    ),
    "textcraft": Dialect(tasks=(0, 544), cuts=WORDS_ONLY),
    "todo": replace(_TOOL, tasks=(0, 155)),
    "weather": replace(_TOOL, tasks=(0, 343)),
    "webarena": Dialect(
        tasks=(0, 812),
        max_turns=15,
        session="env_idx",
        task="idx",
        reset={"seed": 0},
        done=("terminated", "truncated"),
        failed="TimeoutError",
        sends="```{}```",
    ),
    "webshop": Dialect(
        tasks=(0, 6910),
        splits={"test": (0, 500), "validation": (500, 1500), "train": (1500, 6910)},
        max_turns=10,
        session="env_idx",
        task="session_id",
        text="state",
        closes=False,
    ),
    # The server draws the word from the task number, so two numbers may have the same word.
    "wordle": Dialect(
        tasks=(0, 980),
        max_turns=8,
        prefix="/wordle",
        task="seed",
        closes=False,
        words="/filtered_vocab",
    ),
}

MARKS: dict[str, Mapping[str, tuple[str, ...]]] = {
    "/create": {
        "env_idx": ("webarena",),
        "observation": ("textcraft",),
        "id": tuple(name for name, each in DIALECTS.items() if each.session == "id"),
    },
    "/reset": {"task_description": ("sciworld",), "deleted": ("babyai",)},
    "/step": {"state": ("sqlgym", "webshop"), "terminated": ("webarena",)},
}
"""Fields that tell a server, by request: the first that an answer has tells whose dialect it is.

SciWorld, for one, answers /reset with `deleted` too, but with a description of the task before."""


def find_foreign_field(
    path: str, answer: object, environment: str
) -> tuple[str, tuple[str, ...]] | None:
    """A field of an answer that belongs to other dialects, and these; None where nothing tells.

    Nothing tells a server that has no dialect of its own: `generic` takes any that it can read.
    """
    if environment == "generic" or not isinstance(answer, Mapping):
        return None
    for name, dialects in MARKS[path].items():
        if name in answer:
            return None if environment in dialects else (name, dialects)
    return None
