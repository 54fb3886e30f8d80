"""Trajectories as training meets them: experts' episodes of textcraft and webshop, as tokens.

python bench/train/data.py --model FOLDER --out lessons.json   # FOLDER: a tokenizer is enough
"""

import argparse
import json
from pathlib import Path

from hansa_client.experience import demonstrations
from hansa_client.models.chat_template import Chat
from hansa_client.trajectory import Episode, render_all
from hansa_worlds import make

WORLDS = ("textcraft", "webshop")
MAX_LENGTH = 4096


def main() -> None:
    """Write one list of {tokens, is_agent}, the worlds taking turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--each", type=int, default=200, help="episodes of each world")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    from transformers import AutoTokenizer

    chat = Chat(
        AutoTokenizer.from_pretrained(given.model, local_files_only=True, trust_remote_code=False)
    )
    shown = [episodes(name, given.run_each, chat) for name in WORLDS]
    rows = [
        render_all(episode, MAX_LENGTH)[0] for pair in zip(*shown, strict=True) for episode in pair
    ]
    lines = [{"tokens": row.tokens, "is_agent": [int(own) for own in row.is_agent]} for row in rows]
    given.out.write_text(json.dumps(lines, separators=(",", ":")))
    lengths = sorted(len(row) for row in rows)
    own = sum(sum(row.is_agent) for row in rows) / sum(lengths)
    print(f"{len(rows)} trajectories, {lengths[0]} to {lengths[-1]} tokens, {own:.0%} the agent's")


def episodes(name: str, count: int, chat: Chat) -> list[Episode]:
    """What the expert shows in the first tasks of a world."""
    world = make(name, {})
    made: list[Episode] = []
    for task in world.tasks("train"):
        if len(made) == count:
            break
        played = demonstrations._play_expert_task(world, task, chat, 1, thoughts=True)
        if isinstance(played, Episode) and played.success:
            made.append(played)
    return made


if __name__ == "__main__":
    main()
