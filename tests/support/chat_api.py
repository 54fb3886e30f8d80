"""Requests to `hansa serve` and what it answers."""

from typing import Any

import openai

MAZE = (
    "Reach the goal.\nThe goal is at position 8, {place}. Your current position is at position "
    "5, 4. There are walls above you, below you."
)


def said(place: int = 6) -> list[dict[str, str]]:
    return [{"role": "user", "content": MAZE.format(place=place)}]


def ask(client: openai.OpenAI, model: str = "a", place: int = 6, **options: Any) -> Any:
    given = {"max_tokens": 24, "temperature": 0, **options}
    return client.chat.completions.create(model=model, messages=said(place), **given)
