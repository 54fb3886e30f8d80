"""Circles: actions that led back to where the agent had been, in a successful episode.

The goal was reached in spite of them, and an agent that is trained on them learns to walk in
circles. They stay in the experience and in what the agent reads; only their tokens are not
trained on.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hansa_client.experience.shards import Shard
from hansa_client.trajectory import Episode


def mark_circles(shards: Sequence[Shard], shows_state: Callable[[Episode], bool]) -> list[Shard]:
    """The shards with the circles of explored successes marked as not to be trained on.

    Demonstrations stay as they are, and so do failures, which a learner may punish as a whole. In a
    world whose observations do not show its state nothing counts as a circle: there, two different
    states may have the same text.
    """

    def marked(episode: Episode) -> Episode:
        is_led = episode.success and episode.source == "exploration" and shows_state(episode)
        return mark_episode(episode) if is_led else episode

    return [replace(shard, episodes=[marked(e) for e in shard.episodes]) for shard in shards]


def mark_episode(episode: Episode) -> Episode:
    """The episode with the actions of every circle marked; what is left leads to the end.

    A circle ends with an observation that was made before. What was observed within it is
    forgotten: going the same way again, and on from there, is no second circle.
    """
    turns, opening = list(episode.turns), episode.turns[0].text
    way: dict[str, int] = {}  # observations on the way that is left, and the turn of each
    for index, turn in enumerate(turns[:-1]):
        if turn.role != "user" or turns[index + 1].role != "agent":
            continue  # it was not answered
        # The first observation comes after the world's rules.
        text = opening if opening.endswith("\n" + turn.text) else turn.text
        if text in way:
            begin = way[text]
            way = {earlier: at for earlier, at in way.items() if at < begin}
            for at in range(begin, index):
                if turns[at].role == "agent":
                    turns[at] = turns[at].model_copy(update={"trained": False})
        way[text] = index
    return episode.model_copy(update={"turns": turns})
