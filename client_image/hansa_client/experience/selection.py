"""Selection: which episodes of the experience a learner is given."""

from collections.abc import Callable, Sequence

from hansa.api.spec import Experience
from hansa_client import seeds
from hansa_client.experience.shards import DEMONSTRATIONS, Shard
from hansa_client.trajectory import Episode


def choose(
    shards: Sequence[Shard], rules: Experience, round_: int, is_wanted: Callable[[Episode], bool]
) -> list[Episode]:
    """The wanted episodes to train on, oldest first: demonstrations, then those of the rounds.

    Under maxTrajectories the oldest explored ones are dropped first. Demonstrations are kept
    longest, but take at most half of the limit where explored ones fill the rest: otherwise a silo
    could stop improving.
    """
    shown: list[Episode] = []
    explored: list[Episode] = []
    for shard in sorted(shards, key=lambda shard: shard.header.round):
        played = shard.header.round
        wanted = [episode for episode in shard.episodes if is_wanted(episode)]
        if played == DEMONSTRATIONS:
            shown += wanted
        elif rules.history or played == round_:
            explored += [e for e in wanted if is_fresh(e, round_ - played, rules.recency)]
    if rules.per_task:
        explored = keep_newest(explored, rules.per_task, [])
        shown = keep_newest(shown, rules.per_task, explored)
    limit = rules.max_trajectories
    if not limit:
        return shown + explored
    shown = shown[: max(limit - len(explored), limit // 2)]
    room = limit - len(shown)
    return shown + (explored[-room:] if room else [])


def is_fresh(episode: Episode, age: int, recency: float) -> bool:
    """Whether an episode is still trained on at an age in rounds; a dropped one never comes back.

    Each has a fixed random number in [0, 1), and stays while it is below recency ** age.
    """
    if recency == 1 or age <= 0:
        return True
    own = seeds.derive(episode.seed, episode.task, episode.sample, "recency")
    return bool(own < recency**age * 2**seeds.BITS)


def keep_newest(
    episodes: Sequence[Episode], limit: int, beside: Sequence[Episode]
) -> list[Episode]:
    """The newest distinct episodes of each task, up to the limit with those chosen already."""
    texts: dict[str, set[str]] = {}
    for episode in beside:
        texts.setdefault(episode.task, set()).add(_join_texts(episode))
    kept: list[Episode] = []
    for episode in reversed(episodes):
        of_task = texts.setdefault(episode.task, set())
        if len(of_task) < limit and _join_texts(episode) not in of_task:
            of_task.add(_join_texts(episode))
            kept.append(episode)
    return kept[::-1]


def _join_texts(episode: Episode) -> str:
    """The text of an episode, by which equal ones are recognised."""
    return "\0".join(turn.text for turn in episode.turns)
