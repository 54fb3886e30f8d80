"""Demonstrations: the episodes that start an experience, shown by the world's expert or by a file.

A file is read once, before anything slow is loaded; what was taken from it is shard 0 from then on,
whose header has the file's digest. A changed file changes nothing in a run that has begun.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import sha256
from hansa.core.errors import Denied, NotFound, PermanentError
from hansa.runtime import program
from hansa.store.base import ObjectStore
from hansa_client import seeds
from hansa_client.experience import agentgym_format
from hansa_client.experience.agentgym_format import LARGEST_FILE, Conversation
from hansa_client.experience.shards import DEMONSTRATIONS
from hansa_client.models.chat_template import Chat
from hansa_client.rollout import faults
from hansa_client.rollout.faults import Fault, FaultTally
from hansa_client.rollout.tasks import explained, make_world
from hansa_client.trajectory import Episode, Turn
from hansa_worlds import Move, NoPlayer, OptionError, Task, World

_PURPOSE = "demonstrate"

Progress = Callable[[int, int], None]
"""Told the episodes tried so far and the good ones among them."""


@dataclass(frozen=True)
class DemonstrationFile:
    """A file of demonstrations that was read."""

    source: str
    """Where it is, as the manifest says."""
    sha256: str
    """Digest of its bytes."""
    conversations: list[Conversation]
    """What is in it."""

    def inputs(self) -> dict[str, str]:
        """What shard 0 remembers of it."""
        return {"demonstrationsFrom": self.source, "demonstrationsSha256": self.sha256}


@dataclass(frozen=True)
class DemonstrationResult:
    """What came of demonstrating."""

    episodes: list[Episode]
    """Successful episodes."""
    broken: list[Fault] = field(default_factory=list)
    """Why others were dropped: the world failed in them."""


def show(assignment: Assignment, file: DemonstrationFile | None, chat: Chat) -> DemonstrationResult:
    """The demonstrations of one world, from its file or by its expert."""
    if file:
        return from_file(assignment, file, chat)
    wanted = assignment.demonstrations_wanted

    def progress(tried: int, shown: int) -> None:
        if assignment.settings.privacy:
            program.progress(phase="demonstrate", done=tried, total=wanted)
        else:
            program.progress(phase="demonstrate", done=shown, total=wanted, successes=shown)

    world = make_world(assignment)
    with explained(assignment):
        return by_expert(assignment, world, chat, progress)


# -- a file ---------------------------------------------------------------------------------------


def read(assignment: Assignment, private: ObjectStore) -> DemonstrationFile | None:
    """The file that the assignment names, checked; nothing when the world's expert shows."""
    source = assignment.demonstrations_from
    if not source or not assignment.demonstrations_wanted:
        return None
    where = f"{_field(assignment)}: {source}"
    data = _from_s3(assignment, private) if source.startswith("s3://") else _from_path(assignment)
    return DemonstrationFile(source, sha256(data), agentgym_format.read(data, where))


def _field(assignment: Assignment) -> str:
    if assignment.demonstrations_from == assignment.settings.experience.demonstrations_from:
        return "spec.experience.demonstrationsFrom"
    return f"spec.environments[{assignment.environment}].demonstrationsFrom"


def _from_path(assignment: Assignment) -> bytes:
    source = assignment.demonstrations_from or ""
    path = Path(source.removeprefix("path:")).expanduser()
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PermanentError(
            f"{_field(assignment)}: got {source}, which cannot be read ({why}), "
            "expected a file that is in the client's Pod or on this machine"
        ) from None
    return data


def _from_s3(assignment: Assignment, private: ObjectStore) -> bytes:
    """The object, by the silo's own credentials, from the store that has its experience."""
    source = assignment.demonstrations_from or ""
    bucket, _, key = source.removeprefix("s3://").partition("/")
    is_own = bucket == assignment.private_storage.bucket
    store = private if is_own else _open(assignment, bucket)
    try:
        if store.size(key) > LARGEST_FILE:
            raise PermanentError(
                f"{_field(assignment)}: got {source} with {store.size(key)} bytes, "
                f"expected at most {LARGEST_FILE}"
            )
        return store.get(key)
    except NotFound:
        raise PermanentError(
            f"{_field(assignment)}: got {source}, which does not exist, expected a file there"
        ) from None
    except Denied:
        raise PermanentError(
            f"{_field(assignment)}: got {source}, which the environment's credentials may not read",
            hint=f"`hansa policy {assignment.environment}` prints what they must be allowed",
        ) from None


def _open(assignment: Assignment, bucket: str) -> ObjectStore:
    """Another bucket of the store that has its experience, by the identity that opens that."""
    from hansa.store.private import open_private
    from hansa.store.s3 import S3Store

    place = assignment.private_storage.model_copy(update={"bucket": bucket, "prefix": ""})
    if assignment.experience_storage:
        return open_private(place, assignment.environment, os.environ)
    return S3Store(place, path=_field(assignment))


def from_file(assignment: Assignment, file: DemonstrationFile, chat: Chat) -> DemonstrationResult:
    """As many of a file's episodes as are wanted, chosen by the seed: files may be sorted."""
    order = list(range(len(file.conversations)))
    seed = _seed(assignment)
    random.Random(seed).shuffle(order)
    wanted = order[: assignment.demonstrations_wanted]
    return DemonstrationResult(
        [_from_conversation(file.conversations[index], chat, seed) for index in wanted]
    )


def _from_conversation(conversation: Conversation, chat: Chat, seed: int) -> Episode:
    """A conversation as an episode: who shows something has done it, so it is a success."""
    said = conversation.played()
    observations, own = [turn.text for turn in said[::2]], said[1::2]
    turns = _as_turns(observations, [turn.text for turn in own], chat)
    for index, turn in enumerate(own):
        if not turn.loss:
            place = 2 * index + 1
            turns[place] = turns[place].model_copy(update={"trained": False})
    return _episode(conversation.item_id, seed, turns, success=True, reward=1.0)


# -- the world's expert ---------------------------------------------------------------------------


def check_expert(assignment: Assignment, world: World) -> None:
    """Refuse a world that cannot show what is wanted, before anything is loaded."""
    wanted = assignment.demonstrations_wanted
    if wanted and not assignment.demonstrations_from and type(world).expert is World.expert:
        raise _no_expert(assignment)


def _no_expert(assignment: Assignment) -> PermanentError:
    wanted = assignment.demonstrations_wanted
    own = f"spec.environments[{assignment.environment}].demonstrations"
    field = "spec.experience.demonstrations" if assignment.demonstrations is None else own
    return PermanentError(
        f"{field}: got {wanted}, but world {assignment.world} of "
        f"environment {assignment.environment} has no expert, expected 0 or a file of them",
        hint=f"set spec.environments[{assignment.environment}].demonstrationsFrom",
    )


def by_expert(
    assignment: Assignment, world: World, chat: Chat, progress: Progress
) -> DemonstrationResult:
    """Expert episodes of training tasks, successful ones only, as many as are wanted."""
    try:
        return _by_expert(assignment, world, chat, progress)
    except NoPlayer:
        raise _no_expert(assignment) from None
    finally:
        faults.close(world)


def _by_expert(
    assignment: Assignment, world: World, chat: Chat, progress: Progress
) -> DemonstrationResult:
    thoughts, wanted = assignment.settings.experience.thoughts, assignment.demonstrations_wanted
    seed, tasks = _seed(assignment), world.tasks("train")
    is_private = assignment.settings.privacy is not None
    most = 1.0 if is_private else assignment.settings.exploration.max_broken_episodes
    tally = FaultTally(wanted, most)
    shown: list[Episode] = []
    order = random.Random(seed).sample(range(len(tasks)), len(tasks))
    if is_private:  # no task takes the place of one that failed: it would tell of that one
        order = order[:wanted]
    for tried, index in enumerate(order):
        if len(shown) >= wanted:
            break
        episode = _expert_episode(world, tasks[index], chat, seed, thoughts)
        if isinstance(episode, Fault):
            tally.add(world, episode)
        elif episode.success:
            shown.append(episode)
        progress(tried + 1, len(shown))
    return DemonstrationResult(shown, tally.faults)


def _expert_episode(
    world: World, task: Task, chat: Chat, seed: int, thoughts: bool
) -> Episode | Fault:
    """The expert's episode, or why the world or its expert broke off."""
    try:
        observations, actions, reward, success = _play(world, task, thoughts)
    except (NoPlayer, OptionError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # a world is anybody's code
        return faults.of(error, world)
    turns = _as_turns(observations, actions, chat)
    return _episode(task.id, seed, turns, success=success, reward=reward)


def _play(world: World, task: Task, thoughts: bool) -> tuple[list[str], list[str], float, bool]:
    answer = faults.checked(world.start(task), world)
    observations, actions = [answer.text], []
    while not answer.done:
        move: Move = world.expert()
        actions.append(move.text if thoughts else move.action)
        answer = faults.checked(world.step(actions[-1]), world)
        observations.append(answer.text)
    return observations, actions, answer.reward, answer.success


# -- episodes -------------------------------------------------------------------------------------


def _episode(task: str, seed: int, turns: list[Turn], *, success: bool, reward: float) -> Episode:
    return Episode(
        task=task,
        round=DEMONSTRATIONS,
        source="demonstration",
        seed=seed,
        success=success,
        reward=reward,
        turns=turns,
    )


def _as_turns(observations: Sequence[str], actions: Sequence[str], chat: Chat) -> list[Turn]:
    """The turns as a rollout would have recorded them; nobody answered a last observation."""
    answered = list(observations[: len(actions)])
    read = chat.observations(answered[:1], first=True)
    read += chat.observations(answered[1:], first=False)
    turns: list[Turn] = []
    for text, tokens, act, own in zip(
        answered, read, actions, chat.actions(list(actions)), strict=True
    ):
        turns.append(Turn(role="user", text=text, tokens=tokens))
        turns.append(Turn(role="agent", text=act, tokens=own))
    return [*turns, *(Turn(role="user", text=text) for text in observations[len(actions) :])]


def _seed(assignment: Assignment) -> int:
    return seeds.derive(assignment.seed, assignment.environment, 0, _PURPOSE)
