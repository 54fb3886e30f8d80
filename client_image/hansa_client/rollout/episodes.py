"""Playing episodes together: worlds speak, the model answers, until all are done.

Each row plays at its own pace: one that has ended its turn acts and reads while others still write,
and the next episode takes a row as soon as it is free. An episode in which the world fails is
dropped and counted, and the others continue.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hansa.core.errors import PermanentError
from hansa_client.rollout.faults import Fault, FaultTally
from hansa_client.rollout.live_episodes import EpisodeJob, LiveEpisode, RolloutConfig, WorldPool
from hansa_client.trajectory import Episode
from hansa_worlds import World

if TYPE_CHECKING:
    from hansa_client.decoding.protocol import Decoder
    from hansa_client.models.base_model import Base
    from hansa_client.models.chat_template import Chat

__all__ = ["MAX_LENGTH", "EpisodeJob", "Played", "Progress", "RolloutConfig", "play"]

PATIENCE = 4
"""One in this many rows ends its turn before any acts: reading rows singly costs more."""
MAX_LENGTH = 4096
"""Tokens of an episode where no manifest says otherwise."""


@dataclass(frozen=True)
class Played:
    """What came of it."""

    episodes: list[Episode]
    """In the order of the jobs, without the broken ones."""
    generated: int
    """Tokens that the model wrote, in broken episodes too."""
    broken: list[Fault] = field(default_factory=list)
    """Why the others were dropped, one for each."""
    engine: str = ""
    """How the turns were decoded."""
    unreadable: int = 0
    """Turns that are not read back as they were written: nothing is learned from them."""

    @property
    def successes(self) -> int:
        """Episodes that reached their goal."""
        return sum(episode.success for episode in self.episodes)


Progress = Callable[[int, int], None]
"""Told the episodes done so far and the successes among them."""
Decoders = Callable[["Base", int, RolloutConfig], AbstractContextManager["Decoder"]]
"""Makes the decoder that writes the turns of a number of rows."""


def play(
    base: "Base",
    make_world: Callable[[], World],
    jobs: Sequence[EpisodeJob],
    how: RolloutConfig,
    progress: Progress = lambda done, successes: None,
    decoders: Decoders | None = None,
) -> Played:
    """Play all jobs; episodes are returned in the order of the jobs.

    `decoders` makes another decoder than the model's own fastest.

    Raises WorldBroken as soon as more of them are broken than may be.
    """
    if not jobs:
        return Played([], 0)
    if decoders is None:
        from hansa_client.decoding.choose import open_decoder  # imports torch

        decoders = open_decoder
    tally = FaultTally(len(jobs), how.max_broken)
    rows = min(how.batch_episodes, len(jobs))
    with decoders(base, rows, how) as decoder, WorldPool(make_world, how, rows) as worlds:
        live = _EpisodeBatch(base.chat, decoder, worlds, tally, progress).play(jobs)
    _check_room(base, live, how)
    return Played(
        [episode.as_episode() for episode in live if not episode.fault],
        sum(episode.written for episode in live),
        tally.faults,
        decoder.name,
        sum(episode.unreadable for episode in live),
    )


@dataclass
class _EpisodeBatch:
    """The episodes under way, by row."""

    chat: "Chat"
    decoder: "Decoder"
    worlds: WorldPool
    tally: FaultTally
    progress: Progress
    playing: dict[int, LiveEpisode] = field(default_factory=dict)
    done: int = 0
    successes: int = 0

    def play(self, jobs: Sequence[EpisodeJob]) -> list[LiveEpisode]:
        """Play all jobs to their ends; the live episodes in the jobs' order."""
        live: list[LiveEpisode] = []
        waiting = deque(jobs)
        answering: dict[int, LiveEpisode] = {}
        while waiting or self.playing:
            fresh = self._begin(waiting)
            live += fresh.values()
            self.worlds.run_each(LiveEpisode.start, list(fresh.values()))
            answering |= self._observe(fresh, first=True)
            if answering:
                rows = sorted(answering.items())
                self.decoder.read([episode.request(row) for row, episode in rows])
            if not self.playing:
                continue
            acting = self._write()
            self.worlds.run_each(LiveEpisode.act, list(acting.values()))
            answering = self._observe(acting, first=False)
        return live

    def _begin(self, waiting: deque[EpisodeJob]) -> dict[int, LiveEpisode]:
        """The next episodes, on the rows that are free."""
        if self.playing and not self.decoder.joins:
            return {}
        free = [row for row in range(self.decoder.rows) if row not in self.playing]
        fresh = {row: self.worlds.make(waiting.popleft()) for row in free[: len(waiting)]}
        self.playing |= fresh
        return fresh

    def _write(self) -> dict[int, LiveEpisode]:
        """Let the model write until turns are over; the episodes whose turns are."""
        written = self.decoder.write(1 if self.worlds.waits else PATIENCE)
        texts = self.chat.decode_all([tokens for _, tokens in written])
        for (row, tokens), text in zip(written, texts, strict=True):
            episode, note = self.playing[row], self.decoder.notes.get(row)
            if note is None:
                episode.answer(tokens, text, is_cut=tokens[-1] not in self.chat.stops)
            elif note.failure:
                episode.fail(self.decoder.name, note.failure)
            else:
                episode.answer(tokens, note.text, is_exact=note.is_exact)
        return {row: self.playing[row] for row, _ in written}

    def _observe(self, episodes: dict[int, LiveEpisode], *, first: bool) -> dict[int, LiveEpisode]:
        """Record the observations; returns the episodes that continue, and ends the others."""
        for episode in episodes.values():
            if episode.fault:
                self.tally.add(episode.world, episode.fault)
        going = [episode for episode in episodes.values() if not episode.done]
        for episode, tokens in zip(
            going, self._encode_observations(going, first=first), strict=True
        ):
            # An action that was cut has no end: the model reads one, but is not trained on it.
            is_cut = not episode.begins and episode.pending[-1] not in self.chat.stops
            episode.observe([self.chat.end, *tokens] if is_cut else tokens)
        self._end({row: episode for row, episode in episodes.items() if episode.done})
        return {row: episode for row, episode in episodes.items() if not episode.done}

    def _encode_observations(
        self, episodes: Sequence[LiveEpisode], *, first: bool
    ) -> list[list[int]]:
        """What each episode's model reads next."""
        texts = [episode.observation for episode in episodes if not episode.prompt]
        plain = iter(self.chat.encode_observations(texts, first=first))
        return [
            self.chat.encode_conversation(episode.prompt) if episode.prompt else next(plain)
            for episode in episodes
        ]

    def _end(self, episodes: dict[int, LiveEpisode]) -> None:
        if not episodes:
            return
        self.worlds.close(list(episodes.values()))
        for row, episode in episodes.items():
            del self.playing[row]
            self.done += 1
            self.successes += episode.success and not episode.fault
        self.progress(self.done, self.successes)


def _check_room(base: "Base", episodes: Sequence[LiveEpisode], how: RolloutConfig) -> None:
    """Refuse when every first observation is too long: it would look like an agent without skill.

    With privacy nothing is raised, since the error would reveal the tasks' lengths.
    """
    if how.private or not all(episode.too_long for episode in episodes):
        return
    shortest = min(episode.too_long for episode in episodes)
    raise PermanentError(
        f"spec.training.maxLength: got {how.max_length} tokens for an episode (the model has "
        f"{base.cap_length(2**31)} positions), expected more than {shortest}: the first "
        "observation of every task is longer"
    )
