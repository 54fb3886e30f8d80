"""Success of the finished model on held-out tasks, played as a client plays them."""

from __future__ import annotations

from pathlib import Path

from hansa_client.models import base_model
from hansa_client.rollout import episodes
from hansa_client.rollout.tasks import choose_held_out_jobs
from hansa_worlds import make

CONTEXT = 2048


def success(
    folder: Path,
    name: str,
    options: dict[str, object],
    tasks: int,
    temperature: float,
    seed: int,
) -> dict[str, float]:
    """Share of test tasks solved, and tokens and turns per episode."""
    base = base_model.load("builtin:tiny", folder, threads=1)
    jobs = choose_held_out_jobs(make(name, options).tasks("test"), tasks, seed)
    how = episodes.RolloutConfig(
        temperature=temperature,
        max_length=CONTEXT,
        batch_episodes=512,
        round=0,
        source="evaluation",
        max_new_tokens=64,
    )
    played = episodes.play(base, lambda: make(name, options), jobs, how).episodes
    said = [turn for episode in played for turn in episode.turns]
    return {
        "tasks": len(played),
        "success": round(sum(episode.success for episode in played) / len(played), 4),
        "tokens": round(sum(len(turn.tokens) for turn in said) / len(played), 1),
        "turns": round(sum(turn.role == "agent" for turn in said) / len(played), 2),
    }
