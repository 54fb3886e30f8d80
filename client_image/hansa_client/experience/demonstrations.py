"""Demonstrations: the first episodes of an experience, played by the world's expert or from a file.

A file is read once, before the model is loaded; its episodes become shard 0, whose header has the
file's digest. Changes to the file do not affect a run that has begun.
"""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
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
from hansa_client.rollout.episodes import Played, Progress
from hansa_client.rollout.faults import Fault, FaultTally
from hansa_client.rollout.tasks import explain_world_errors, make_world
from hansa_client.trajectory import Episode, Turn
from hansa_worlds import Move, NoPlayer, OptionError, Task, World

_PURPOSE = "demonstrate"


@dataclass(frozen=True)
class DemonstrationFile:
    """A file of demonstrations that was read."""

    source: str
    """Where it is, as the manifest says."""
    sha256: str
    """Digest of its bytes."""
    conversations: list[Conversation]
    """What is in it."""

    def to_inputs(self) -> dict[str, str]:
        """What the header of shard 0 records of it."""
        return {"demonstrationsFrom": self.source, "demonstrationsSha256": self.sha256}


def collect(assignment: Assignment, file: DemonstrationFile | None, chat: Chat) -> Played:
    """The demonstrations of one world, from its file or by its expert."""
    if file:
        return choose_from_file(assignment, file, chat)
    wanted = assignment.demonstrations_wanted

    def progress(tried: int, shown: int) -> None:
        if assignment.settings.privacy:
            program.progress(phase="demonstrate", done=tried, total=wanted)
        else:
            program.progress(phase="demonstrate", done=shown, total=wanted, successes=shown)

    world = make_world(assignment)
    with explain_world_errors(assignment):
        return play_expert_tasks(assignment, world, chat, progress)


# -- a file ---------------------------------------------------------------------------------------


def read(assignment: Assignment, private: ObjectStore) -> DemonstrationFile | None:
    """The file that the assignment names, checked; nothing when the world's expert shows."""
    source = assignment.demonstrations_from
    if not source or not assignment.demonstrations_wanted:
        return None
    is_object = source.startswith("s3://")
    field = _name_field(assignment)
    data = _read_s3(assignment, private, source) if is_object else _read_path(field, source)
    return DemonstrationFile(source, sha256(data), agentgym_format.read(data, f"{field}: {source}"))


def _name_field(assignment: Assignment) -> str:
    if assignment.demonstrations_from == assignment.settings.experience.demonstrations_from:
        return "spec.experience.demonstrationsFrom"
    return f"spec.environments[{assignment.environment}].demonstrationsFrom"


def _read_path(field: str, source: str) -> bytes:
    path = Path(source.removeprefix("path:")).expanduser()
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_FILE + 1)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PermanentError(
            f"{field}: got {source}, which cannot be read ({why}), "
            "expected a file that is in the client's Pod or on this machine"
        ) from None


def _read_s3(assignment: Assignment, private: ObjectStore, source: str) -> bytes:
    """The object, with the silo's own credentials, from the store of its experience."""
    bucket, _, key = source.removeprefix("s3://").partition("/")
    is_own = bucket == assignment.private_storage.bucket
    store = private if is_own else _open_bucket(assignment, bucket)
    try:
        if store.size(key) > LARGEST_FILE:
            raise PermanentError(
                f"{_name_field(assignment)}: got {source} with {store.size(key)} bytes, "
                f"expected at most {LARGEST_FILE}"
            )
        return store.get(key)
    except NotFound:
        raise PermanentError(
            f"{_name_field(assignment)}: got {source}, which does not exist, expected a file there"
        ) from None
    except Denied:
        raise PermanentError(
            f"{_name_field(assignment)}: got {source}, which the environment's credentials may not "
            "read",
            hint=f"`hansa policy FILE {assignment.environment}` prints what they must be allowed",
        ) from None


def _open_bucket(assignment: Assignment, bucket: str) -> ObjectStore:
    """Another bucket in the store of the silo's experience, with the same identity."""
    from hansa.store.private import open_private
    from hansa.store.s3 import S3Store

    place = assignment.private_storage.model_copy(update={"bucket": bucket, "prefix": ""})
    if assignment.experience_storage:
        return open_private(place, assignment.environment, os.environ)
    return S3Store(place, path=_name_field(assignment))


def choose_from_file(assignment: Assignment, file: DemonstrationFile, chat: Chat) -> Played:
    """As many of a file's episodes as are wanted, chosen by the seed: files may be sorted."""
    order = list(range(len(file.conversations)))
    seed = _derive_seed(assignment)
    random.Random(seed).shuffle(order)
    wanted = order[: assignment.demonstrations_wanted]
    return Played([_make_episode_of(file.conversations[i], chat, seed) for i in wanted], 0)


def _make_episode_of(conversation: Conversation, chat: Chat, seed: int) -> Episode:
    """A conversation as an episode; demonstrations from files count as successes."""
    said = conversation.merge_rules()
    observations, own = [turn.text for turn in said[::2]], said[1::2]
    turns = _make_turns(observations, [turn.text for turn in own], chat)
    for index, turn in enumerate(own):
        if not turn.loss:
            place = 2 * index + 1
            turns[place] = turns[place].model_copy(update={"trained": False})
    return _make_episode(conversation.item_id, seed, turns, success=True, reward=1.0)


# -- the world's expert ---------------------------------------------------------------------------


def check_expert(assignment: Assignment, world: World) -> None:
    """Refuse a world without an expert where demonstrations are wanted."""
    wanted = assignment.demonstrations_wanted
    if wanted and not assignment.demonstrations_from and type(world).expert is World.expert:
        raise _make_no_expert_error(assignment)


def _make_no_expert_error(assignment: Assignment) -> PermanentError:
    wanted = assignment.demonstrations_wanted
    own = f"spec.environments[{assignment.environment}].demonstrations"
    field = "spec.experience.demonstrations" if assignment.demonstrations is None else own
    return PermanentError(
        f"{field}: got {wanted}, but world {assignment.world} of "
        f"environment {assignment.environment} has no expert, expected 0 or a file of them",
        hint=f"set spec.environments[{assignment.environment}].demonstrationsFrom",
    )


def play_expert_tasks(
    assignment: Assignment, world: World, chat: Chat, progress: Progress
) -> Played:
    """Successful expert episodes of training tasks, as many as are wanted."""
    thoughts, wanted = assignment.settings.experience.thoughts, assignment.demonstrations_wanted
    seed, is_private = _derive_seed(assignment), assignment.settings.privacy is not None
    most = 1.0 if is_private else assignment.settings.exploration.max_broken_episodes
    tally = FaultTally(wanted, most)
    shown: list[Episode] = []
    try:
        tasks = world.tasks("train")
        order = random.Random(seed).sample(range(len(tasks)), len(tasks))
        if is_private:  # no task replaces one that failed: that would reveal the failure
            order = order[:wanted]
        for tried, index in enumerate(order):
            if len(shown) >= wanted:
                break
            episode = _play_expert_task(world, tasks[index], chat, seed, thoughts)
            if isinstance(episode, Fault):
                tally.add(world, episode)
            elif episode.success:
                shown.append(episode)
            progress(tried + 1, len(shown))
    except NoPlayer:
        raise _make_no_expert_error(assignment) from None
    finally:
        faults.close(world)
    return Played(shown, 0, tally.faults)


def _play_expert_task(
    world: World, task: Task, chat: Chat, seed: int, thoughts: bool
) -> Episode | Fault:
    """The expert's episode, or why the world or its expert broke off."""
    try:
        observations, actions, reward, success = play_expert(world, task, thoughts=thoughts)
    except (NoPlayer, OptionError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # worlds may be plug-ins
        return faults.describe_fault(error, world)
    turns = _make_turns(observations, actions, chat)
    return _make_episode(task.id, seed, turns, success=success, reward=reward)


def play_expert(
    world: World, task: Task, *, thoughts: bool
) -> tuple[list[str], list[str], float, bool]:
    """An expert's episode: observations, actions, the last reward, and whether it succeeded."""
    answer = faults.check_answer(world.start(task), world)
    observations, actions = [answer.text], []
    while not answer.done:
        move: Move = world.expert()
        actions.append(move.text if thoughts else move.action)
        answer = faults.check_answer(world.step(actions[-1]), world)
        observations.append(answer.text)
    return observations, actions, answer.reward, answer.success


# -- episodes -------------------------------------------------------------------------------------


def _make_episode(
    task: str, seed: int, turns: list[Turn], *, success: bool, reward: float
) -> Episode:
    return Episode(
        task=task,
        round=DEMONSTRATIONS,
        source="demonstration",
        seed=seed,
        success=success,
        reward=reward,
        turns=turns,
    )


def _make_turns(observations: Sequence[str], actions: Sequence[str], chat: Chat) -> list[Turn]:
    """The turns as a rollout would have recorded them; a last observation has no tokens."""
    answered = list(observations[: len(actions)])
    read = chat.encode_observations(answered[:1], first=True)
    read += chat.encode_observations(answered[1:], first=False)
    turns: list[Turn] = []
    for text, tokens, act, own in zip(
        answered, read, actions, chat.encode_actions(list(actions)), strict=True
    ):
        turns.append(Turn(role="user", text=text, tokens=tokens))
        turns.append(Turn(role="agent", text=act, tokens=own))
    return [*turns, *(Turn(role="user", text=text) for text in observations[len(actions) :])]


def _derive_seed(assignment: Assignment) -> int:
    return seeds.derive(assignment.seed, assignment.environment, 0, _PURPOSE)
