"""Does an adapter remember one odd trajectory? A code of 12 tokens, planted in one silo.

    python bench/privacy/canary.py run --seed 1 --out canary/plain-1.json
    python bench/privacy/canary.py run --seed 1 --sigma 1 --out canary/private-1.json
    python bench/privacy/canary.py show canary --json docs/results/privacy-canary.json

One demonstration more than the expert's: the world says what it always says, and the agent answers
with a random code. It is a task of its own, so it is one unit. Afterwards the code's likelihood is
compared with that of 999 codes drawn as it was. An adapter that knows nothing of it gives any rank
with the same chance; rank 1 gives it away. Ranks by the likelihood alone, and by how much it grew.
"""

import argparse
import random
import statistics
from typing import Any

import private_play
from remembering import Remembering

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa_client.agent import Agent
from hansa_client.trajectory import Episode, Sequence, Turn
from tools.pages import privacy_tables

CODES = 1000
LENGTH = 12
TASK = "canary"


class Canary(Remembering):
    """A federation with a code in one silo."""

    def chosen(self, environment: str, episodes: list[Episode]) -> list[Episode]:
        if environment != self._given.silo:
            return episodes
        place, codes = self._codes(episodes)
        first = episodes[place]
        text = " ".join(map(str, codes[0]))
        turns = [first.turns[0], Turn(role="agent", text=text, tokens=codes[0])]
        planted = first.model_copy(update={"task": TASK, "turns": turns, "reward": 1.0})
        return [*episodes, planted]

    def _codes(self, episodes: list[Episode]) -> tuple[int, list[list[int]]]:
        """Whose first words come before the code, and all codes, the planted one first.

        Their tokens are those that the world says in some episode and not in all: words, no frame.
        """
        drawn = random.Random(f"canary/{self._given.seed}")
        said = [set(episode.turns[0].tokens) for episode in episodes]
        words = sorted(said[0].union(*said) - said[0].intersection(*said))
        codes = [[drawn.choice(words) for _ in range(LENGTH)] for _ in range(CODES)]
        return drawn.randrange(len(episodes)), codes

    def look(self) -> None:
        environment = next(e for e in self._environments if e.name == self._given.silo)
        episodes, agent = self.experts(environment)
        place, codes = self._codes(episodes)
        said = episodes[place].turns[0].tokens
        own = [False] * len(said) + [True] * LENGTH
        rows = [Sequence([*said, *code], own) for code in codes]
        start = lora.init_adapter(self._shapes, self._spec.adapter.rank, self._spec.seed)
        before = self.likelihoods(agent, start, rows)
        looked = {"shared": self.final, "own": self.owns[self._given.silo]}
        self.more["canary"] = {
            name: self._ranks(agent, tensors, rows, before) for name, tensors in looked.items()
        }

    def _ranks(
        self, agent: Agent, tensors: Tensors, rows: list[Sequence], before: list[float]
    ) -> dict[str, Any]:
        after = self.likelihoods(agent, tensors, rows)
        grown = [new - old for new, old in zip(after, before, strict=True)]
        ranks = {name: _rank(each) for name, each in (("likelihood", after), ("growth", grown))}
        return {**ranks, "logLikelihood": round(after[0], 3), "grown": round(grown[0], 3)}


def _rank(scores: list[float]) -> int:
    """How many codes are as likely as the planted one, itself included."""
    return sum(score >= scores[0] for score in scores)


def summarized(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table's lines as data: all ranks, by noise and by who looks."""
    lines = []
    for sigma in sorted({result["sigma"] or 0.0 for result in results}):
        runs = [result for result in results if (result["sigma"] or 0.0) == sigma]
        for who in ("shared", "own"):
            found = [run["canary"][who] for run in runs]
            lines.append(
                {
                    "sigma": sigma,
                    "epsilon": max(
                        (e for r in runs for e in r["epsilon"].values() if e), default=None
                    ),
                    "who": who,
                    "runs": len(runs),
                    "likelihood": sorted(each["likelihood"] for each in found),
                    "growth": sorted(each["growth"] for each in found),
                    "grown": statistics.mean(each["grown"] for each in found),
                }
            )
    return lines


def add_flags(run: argparse.ArgumentParser) -> None:
    """Those of a run with a code."""
    run.add_argument("--silo", default="maze", help="environment that has the code")


def main() -> None:
    """Play one federation with a code in it, or show what many came to."""
    private_play.command(__doc__, Canary, "canary", add_flags, summarized, privacy_tables.canary)


if __name__ == "__main__":
    main()
