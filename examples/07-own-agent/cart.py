"""A cart drives to a shelf: an agent of one's own as a plain loop with the `openai` client."""

import json
import os
import random
from pathlib import Path

from openai import OpenAI

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
SIZE, MOST_TURNS = 6, 12


def look(place: list[int], shelf: list[int]) -> str:
    return (
        f"The goal is at position {shelf[0]}, {shelf[1]}. Your current position is at position "
        f"{place[0]}, {place[1]}. There are no walls near you."
    )


def play(model: OpenAI, number: int) -> bool:
    """Drive until the cart is there; the task is a number, and decides where both stand."""
    draw = random.Random(number)
    place, shelf = ([draw.randint(1, SIZE), draw.randint(1, SIZE)] for _ in range(2))
    messages = [{"role": "user", "content": f"Reach the goal.\n{look(place, shelf)}"}]
    for _ in range(MOST_TURNS):
        answer = model.chat.completions.create(model="agent", messages=messages)
        said = answer.choices[0].message.content or ""
        step = MOVES.get((said.split() or [""])[-1], (0, 0))
        place = [min(max(at + by, 1), SIZE) for at, by in zip(place, step, strict=True)]
        if place == shelf:
            return True
        messages.append({"role": "assistant", "content": said})
        messages.append({"role": "user", "content": look(place, shelf)})
    return False


if __name__ == "__main__":
    task = json.loads(os.environ["HANSA_TASK"])
    success = play(OpenAI(), task["number"])  # OPENAI_BASE_URL and OPENAI_API_KEY are set
    Path(os.environ["HANSA_RESULT"]).write_text(json.dumps({"success": success}))
