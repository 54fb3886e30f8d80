"""Circles: actions that led back to where the agent had been, in an episode that ended well.

Success alone says nothing about them: the goal was reached in spite of them, and an agent that is
trained on them walks in circles more surely. They stay in the experience and in what the agent
reads; only their tokens are not learned from.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hansa_client.experience.shards import Shard
from hansa_client.trajectory import Episode, Turn


def skip(shards: Sequence[Shard], shows_state: Callable[[Episode], bool]) -> list[Shard]:
    """The shards with the circles of explored successes marked as not to be learned from.

    Demonstrations are left as they are, and so is a failure, which a learner may punish whole. Of a
    world whose observations do not show its state, nothing is a circle: crafting a thing twice is
    answered by the same words.
    """

    def marked(episode: Episode) -> Episode:
        is_led = episode.success and episode.source == "exploration" and shows_state(episode)
        return without_circles(episode) if is_led else episode

    return [replace(shard, episodes=[marked(e) for e in shard.episodes]) for shard in shards]


def without_circles(episode: Episode) -> Episode:
    """The episode with the actions of every circle marked; what is left leads to the end.

    A circle is closed by an observation that was made before. What was observed within it is
    forgotten: going the same way again, and on from there, is no second circle.
    """
    turns, opening = list(episode.turns), episode.turns[0].text
    way: dict[str, int] = {}  # observations on the way that is left, and the turn of each
    for index, turn in enumerate(turns[:-1]):
        if turn.role != "user" or turns[index + 1].role != "agent":
            continue  # what nobody answered leads nowhere
        # The first observation stands behind the world's rules.
        text = opening if opening.endswith("\n" + turn.text) else turn.text
        if text in way:
            begin = way[text]
            way = {earlier: at for earlier, at in way.items() if at < begin}
            turns[begin:index] = [_marked(between) for between in turns[begin:index]]
        way[text] = index
    return episode.model_copy(update={"turns": turns})


def _marked(turn: Turn) -> Turn:
    return turn.model_copy(update={"trained": False}) if turn.role == "agent" else turn
