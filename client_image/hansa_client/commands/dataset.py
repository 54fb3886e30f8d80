"""A silo's episodes as a dataset on a hub: only on request, after a sample was shown."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from hansa.adapter import model_card
from hansa.cli.common import console, say
from hansa.core.errors import InputError
from hansa.publish.parcel import Item
from hansa_client.commands import trajectories
from hansa_client.commands.show import EpisodeScreen
from hansa_client.commands.silos import StoredSilo
from hansa_client.commands.trajectories import EpisodeFilter, Match

FILE = "trajectories.jsonl"
SHOWN = 10
"""Episodes that are shown before any is sent."""
_ROLES = {"user": "user", "agent": "assistant"}


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """All stored episodes of one environment."""

    environment: str
    """Whose they are."""
    world: str
    """What they were played in."""
    episodes: Sequence[Match]
    """In the order of play."""

    @classmethod
    def read(cls, silos: list[StoredSilo], environment: str) -> "Dataset":
        """Read them with the silo's own credentials."""
        chosen = trajectories.choose(silos, environment, option="--trajectories")
        episodes = list(trajectories.find(chosen, EpisodeFilter()))
        if not episodes:
            raise InputError(f"--trajectories: got {environment}, which has no episodes")
        world = chosen[0].environment.world
        return cls(environment=environment, world=world, episodes=episodes)

    def make_files(self, license_: str, adapter: str) -> list[Item]:
        """The episodes, a line each, and a card."""
        lines = b"".join(map(_encode_line, self.episodes))
        text = self._format_card(license_, adapter)
        return [Item(model_card.NAME, text.encode(errors="replace")), Item(FILE, lines)]

    def show_some(self) -> None:
        """Print ten of them whole, from the first to the last."""
        count = len(self.episodes)
        places = sorted({step * (count - 1) // max(1, SHOWN - 1) for step in range(SHOWN)})
        screen = EpisodeScreen(console(stderr=True))
        for place in places:
            trajectories.print_episode(self.episodes[place], screen)
        say(f"{len(places)} of {count} episodes of {self.environment}: these texts would leave")

    def _format_card(self, license_: str, adapter: str) -> str:
        matter = {
            **({"license": license_} if license_ else {}),
            "task_categories": ["text-generation"],
            "tags": ["agent", "trajectories", "hansa"],
            "configs": [{"config_name": "default", "data_files": FILE}],
        }
        won = sum(each.episode.success for each in self.episodes)
        return (
            f"---\n{yaml.safe_dump(matter, sort_keys=False)}---\n\n"
            f"# Episodes of {self.environment}\n\n"
            f"{len(self.episodes)} episodes in the world `{self.world or self.environment}`, {won} "
            f"of them successful, which the agent `{adapter}` was trained by.\n\n"
            "Each line has `task`, `round` (0: demonstrations), `source`, `success`, `reward` and\n"
            "`messages`: the world speaks as `user`, the agent as `assistant`.\n"
        )


def _encode_line(match: Match) -> bytes:
    episode = match.episode
    turns = [{"role": _ROLES[turn.role], "content": turn.text} for turn in episode.turns]
    document = {
        "task": episode.task,
        "round": episode.round,
        "source": episode.source,
        "success": episode.success,
        "reward": episode.reward,
        "messages": turns,
    }
    return json.dumps(document, ensure_ascii=False).encode(errors="replace") + b"\n"
