"""Live episodes: the rows of a batch; an exception of one's world ends only that episode.

Worlds that wait for I/O take their steps in threads; all others one after another.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from hansa_client import seeds
from hansa_client.decoding.protocol import Decoding, TurnRequest
from hansa_client.rollout import faults
from hansa_client.rollout.faults import Fault
from hansa_client.trajectory import Episode, Turn
from hansa_worlds import Observation, OptionError, Prompt, Task, World

MAX_BROKEN = 0.1
"""Share of broken episodes where no manifest says otherwise."""
_SEED_BITS = 2**31 - 1
"""Some servers refuse longer seeds."""
MOST_THREADS = 64
"""Threads for worlds that wait; more would flood an external server."""


@dataclass(frozen=True)
class EpisodeJob:
    """One episode to play."""

    task: Task
    """What to play."""
    sample: int
    """Which of several episodes of the task."""
    seed: int
    """Seed of its tokens."""


@dataclass(frozen=True, kw_only=True)
class RolloutConfig(Decoding):
    """How to play."""

    batch_episodes: int
    """Episodes played together."""
    round: int
    """Round the episodes belong to."""
    source: Literal["exploration", "evaluation"]
    """Why they are played."""
    max_broken: float = MAX_BROKEN
    """Share of the episodes in which the world may fail."""
    private: bool = False
    """Whether an episode's outcome must not end the others, as with privacy."""


class LiveEpisode:
    """One row of a batch: its world, what was said, and what the model has yet to read."""

    def __init__(self, world: World, job: EpisodeJob, how: RolloutConfig) -> None:
        self.world = world
        self.job = job
        self.how = how
        self.done = False
        self.success = False
        self.fault: Fault | None = None
        """Why the episode is dropped."""
        self.too_long = 0
        """Tokens of a first observation that leaves no room to answer; 0: it does."""
        self.written = 0
        self.unreadable = 0
        """Turns whose tokens do not decode to their text."""
        self.pending: list[int] = []
        self.observation = ""
        self.prompt: Prompt | None = None
        """The chat to read, of a world that speaks in messages."""
        self._random = seeds.make_generator(job.seed)
        self._reward = 0.0
        self._violations: int | None = None
        self._length = 0
        self._is_first = True
        self._turns: list[Turn] = []

    def start(self) -> None:
        """Begin the episode."""
        self.world.seed = self.job.seed
        self._call(lambda: self.world.start(self.job.task))

    def observe(self, tokens: list[int]) -> None:
        """Take in the last observation, unless the episode would grow too long to answer it."""
        begins = self.begins
        length = len(tokens) if begins else self._length + len(tokens)
        if length >= self.how.max_length:
            self.too_long = 0 if self._turns else len(tokens)
            self._stop()
            return
        self._turns.append(self._read(tokens))
        self._length = length
        self.pending = list(tokens) if begins else self.pending + tokens
        self._is_first = begins

    @property
    def begins(self) -> bool:
        """Whether what the model reads next begins a new chat."""
        return not self._turns or (self.prompt is not None and not self.prompt.known)

    def _read(self, tokens: list[int]) -> Turn:
        """The observation as a turn of the trajectory."""
        turn = Turn(role="user", text=self.observation, tokens=tokens)
        if not (prompt := self.prompt):
            return turn
        more = {
            "messages": [dict(message) for message in prompt.messages[prompt.known :]],
            "tools": [dict(tool) for tool in prompt.tools] if self.begins else None,
            "begins": True if self._turns and self.begins else None,
        }
        return turn.model_copy(update={name: value for name, value in more.items() if value})

    def request(self, row: int) -> TurnRequest:
        """The request for the next turn.

        Every turn draws the same count of random numbers, so that none shifts those of the next.
        """
        asked, most = self.prompt.max_tokens if self.prompt else None, self.how.max_new_tokens
        return TurnRequest(
            row=row,
            is_first=self._is_first,
            tokens=self.pending,
            budget=min(asked or most, most, self.how.max_length - self._length),
            uniforms=self._random.random(most),
            stop=self.prompt.stop if self.prompt else (),
            text=self.observation,
            seed=seeds.derive(self.job.seed, "", len(self._turns), "turn") & _SEED_BITS,
        )

    def answer(
        self, tokens: list[int], text: str, *, is_cut: bool = False, is_exact: bool = True
    ) -> None:
        """Note what the model wrote, up to a text that ends the turn; `act` carries it out."""
        for ending in (*self.how.stop, *(self.prompt.stop if self.prompt else ())):
            text, ended, _ = text.partition(ending)
            is_cut = is_cut and not ended
        self.world.is_cut = is_cut
        turn = Turn(role="agent", text=text.strip(), tokens=tokens)
        self._turns.append(turn if is_exact else turn.model_copy(update={"trained": False}))
        self.unreadable += not is_exact
        self._length += len(tokens)
        self.written += len(tokens)
        self.pending = tokens[-1:]

    def fail(self, place: str, why: str) -> None:
        """End the episode, since its next turn could not be written; `why` quotes nothing of it."""
        self.fault = Fault("EndpointFailed", place, why, is_world=False)
        self.done = True

    def act(self) -> None:
        """Carry out the last answer, if there is one."""
        if self.fault:
            return
        text = self._turns[-1].text
        self._call(lambda: self.world.step(text))

    def close(self) -> None:
        """Give back what the world holds."""
        faults.close(self.world)

    def as_episode(self) -> Episode:
        """The episode as played so far."""
        return Episode(
            task=self.job.task.id,
            sample=self.job.sample,
            round=self.how.round,
            source=self.how.source,
            seed=self.job.seed,
            success=self.success,
            reward=self._reward,
            violations=self._violations,
            turns=self._turns,
        )

    def _call(self, call: Callable[[], Observation]) -> None:
        """Let the world answer; the episode ends with a fault when it raises."""
        try:
            result = faults.check_answer(call(), self.world)
        except (MemoryError, OptionError):
            raise  # of the machine or the manifest, and the same for every episode
        except (Exception, SystemExit) as error:  # worlds may be plug-ins
            self.fault = faults.describe_fault(error, self.world)
            self.done = True
            return
        self.observation, self._reward, self.success = result.text, result.reward, result.success
        self.prompt = result.prompt
        self._violations = result.violations
        if result.called:
            called = {"tool_calls": [dict(call) for call in result.called]}
            self._turns[-1] = self._turns[-1].model_copy(update=called)
        if result.done:
            self._stop()

    def _stop(self) -> None:
        self.done = True
        self._turns.append(Turn(role="user", text=self.observation))


class WorldPool:
    """The worlds of all live episodes; whatever happens, they are closed at the end."""

    def __init__(self, make_world: Callable[[], World], how: RolloutConfig, rows: int) -> None:
        self._make_world = make_world
        self._how = how
        self._threads = min(rows, MOST_THREADS)
        self._pool: ThreadPoolExecutor | None = None
        self._live: list[LiveEpisode] = []

    def __enter__(self) -> "WorldPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close(self._live)
        if self._pool:
            self._pool.shutdown()

    @property
    def waits(self) -> bool:
        """Whether worlds wait for I/O, and should do so at the same time."""
        return self._pool is not None

    def make(self, job: EpisodeJob) -> LiveEpisode:
        """One more episode, with a world of its own."""
        episode = LiveEpisode(self._make_world(), job, self._how)
        self._live.append(episode)
        if episode.world.waits and self._threads > 1 and not self._pool:
            self._pool = ThreadPoolExecutor(self._threads, "world")
        return episode

    def close(self, episodes: Sequence[LiveEpisode]) -> None:
        """Close the worlds of episodes that are over."""
        left = [episode for episode in self._live if episode not in episodes]
        self.run_each(LiveEpisode.close, list(episodes))
        self._live = left

    def run_each(self, do: Callable[[LiveEpisode], None], episodes: Sequence[LiveEpisode]) -> None:
        """Do something with each episode, side by side where worlds wait."""
        if self._pool and len(episodes) > 1:
            list(self._pool.map(do, episodes))  # the list raises what a thread raised
            return
        for episode in episodes:
            do(episode)
