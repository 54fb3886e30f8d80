"""Trajectories: one played episode as data, as a JSON line, and as the tokens a learner sees.

Every turn keeps its token ids beside its text. Text alone would have to be tokenised again, and no
tokenizer promises that decoding and encoding gives back what the model generated; with the ids,
training sees exactly what the rollout saw. The text is for people. The ids stay valid because a run
never changes its base model.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from hansa.api.bucket_documents import Count, Seed
from hansa.api.spec import Model
from hansa.core.errors import Corrupt
from hansa.validation.messages import describe_first_misfit

Token = Annotated[int, Field(ge=0)]


class Turn(Model):
    """What the world said or the agent did."""

    role: Literal["user", "agent"]
    """`user` is the world's observation, `agent` the model's own text."""
    text: str
    """The turn as a person reads it."""
    tokens: list[Token] = Field(default_factory=list)
    """Ids as the model saw or wrote them; empty for a last observation without an answer."""
    trained: Literal[False] | None = None
    """False: the agent's turn is read but not learned from; absent: its own turns are."""
    begins: Literal[True] | None = None
    """True: the model reads this turn as the first of a chat, and nothing that came before it."""
    messages: list[dict[str, Any]] | None = None
    """New messages of a chat in the format of OpenAI's API, where the world speaks in messages."""
    tools: list[dict[str, Any]] | None = None
    """Tools that the agent may call from here on."""
    tool_calls: list[dict[str, Any]] | None = None
    """Tools that the agent's turn called."""


class Episode(Model):
    """One played task."""

    task: str
    """Id of the task in its world."""
    sample: Count = 0
    """Which of several episodes of the task."""
    round: Count
    """Round that played it; 0 for demonstrations."""
    source: Literal["demonstration", "exploration", "evaluation"]
    """Who played, and why."""
    seed: Seed
    """Seed its tokens were sampled with."""
    success: bool
    """Whether the goal was reached."""
    reward: float = 0.0
    """The last step's reward."""
    violations: Count | None = None
    """How often it broke a rule, where its world has one; absent: it has none."""
    turns: list[Turn]
    """The episode, beginning with the world's first observation."""


@dataclass(frozen=True)
class Sequence:
    """A trajectory as a learner sees it."""

    tokens: list[int]
    """Token ids."""
    is_agent: list[bool]
    """Which of them the agent wrote; the loss is on these alone."""
    continues: bool = False
    """Whether it is another chat of the same episode as the sequence before it."""

    def __len__(self) -> int:
        return len(self.tokens)


def render_all(episode: Episode, max_length: int) -> list[Sequence]:
    """Each chat of an episode as a sequence of its own, for none of them was read with another.

    Chats of which nothing can be learned are left out, but for a first one.
    """
    begins = [0, *(at for at, turn in enumerate(episode.turns) if turn.begins)]
    ends = [*begins[1:], len(episode.turns)]
    first, *more = (
        _render_turns(episode.turns[begin:end], max_length)
        for begin, end in zip(begins, ends, strict=True)
    )
    rest = [chat for chat in more if len(chat)]
    return [first, *(replace(c, continues=len(first) > 0 or at > 0) for at, c in enumerate(rest))]


def _render_turns(turns: Iterable[Turn], max_length: int) -> Sequence:
    """Tokens and loss mask of turns, cut to the length and to the agent's last token.

    What follows the agent's last token could only cost time: nothing is learned from it.
    """
    tokens: list[int] = []
    is_agent: list[bool] = []
    for turn in turns:
        tokens += turn.tokens
        is_own = turn.role == "agent" and turn.trained is None
        is_agent += [is_own] * len(turn.tokens)
    last = max((i for i, own in enumerate(is_agent[:max_length]) if own), default=-1)
    return Sequence(tokens[: last + 1], is_agent[: last + 1])


def encode(episode: Episode) -> bytes:
    """One JSON line."""
    return episode.model_dump_json(by_alias=True, exclude_none=True).encode() + b"\n"


def decode(line: bytes, where: str) -> Episode:
    """The episode of a JSON line, or the field that is wrong in which file."""
    try:
        return Episode.model_validate_json(line)
    except ValidationError as error:
        raise Corrupt(f"{where}: {describe_first_misfit(error, 'line')}") from None
