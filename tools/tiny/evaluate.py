"""Success of a model on held-out tasks, all episodes of a world in lock-step.

The whole prefix is computed again for every token: wasteful, but a page long, and for a million
parameters on a GPU it takes seconds.
"""

from __future__ import annotations

from typing import Any

import torch

from hansa_client.worlds import DEMO_OPTIONS, make
from tiny.tokens import Coder

LONGEST_ACTION = 28
CONTEXT = 1024


@torch.no_grad()
def act(
    model: Any, coder: Coder, prefixes: list[list[int]], temperature: float, draw: torch.Generator
) -> list[list[int]]:
    """Continue every prefix to its end token; temperature 0 is greedy."""
    device = next(model.parameters()).device
    written: list[list[int]] = [[] for _ in prefixes]
    alive = list(range(len(prefixes)))
    for _ in range(LONGEST_ACTION):
        rows = [prefixes[i] + written[i] for i in alive]
        ends = torch.tensor([len(row) - 1 for row in rows], device=device)
        width = -(-max(map(len, rows)) // 32) * 32
        tokens = torch.full((len(rows), width), coder.pad, dtype=torch.long)
        for place, row in enumerate(rows):
            tokens[place, : len(row)] = torch.tensor(row)
        hidden = model.model(input_ids=tokens.to(device)).last_hidden_state
        logits = model.lm_head(hidden[torch.arange(len(rows), device=device), ends]).float()
        if temperature:
            chosen = torch.multinomial(
                torch.softmax(logits / temperature, -1), 1, generator=draw
            ).squeeze(1)
        else:
            chosen = logits.argmax(-1)
        still = []
        for index, token in zip(alive, chosen.tolist(), strict=True):
            written[index].append(token)
            if token != coder.end:
                still.append(index)
        alive = still
        if not alive:
            break
    return written


def success(
    model: Any, coder: Coder, name: str, tasks: int, temperature: float, seed: int
) -> dict[str, float]:
    """Share of test tasks solved, and tokens and turns per episode."""
    device = next(model.parameters()).device
    draw = torch.Generator(device=device).manual_seed(seed)
    every = make(name, DEMO_OPTIONS[name]).tasks("test")
    chosen = [every[i * len(every) // tasks] for i in range(min(tasks, len(every)))]
    worlds = [make(name, DEMO_OPTIONS[name]) for _ in chosen]
    seen = [world.start(task) for world, task in zip(worlds, chosen, strict=True)]
    histories = [[coder.bos] for _ in worlds]
    alive, turns = list(range(len(worlds))), 0
    while alive:
        for i in alive:
            histories[i] += [coder.user, *coder.encode(seen[i].text), coder.agent]
        alive = [i for i in alive if len(histories[i]) + LONGEST_ACTION < CONTEXT]
        if not alive:
            break
        actions = act(model, coder, [histories[i] for i in alive], temperature, draw)
        turns += len(alive)
        for i, action in zip(alive, actions, strict=True):
            histories[i] += action
            text = coder.decode(action[:-1] if action[-1] == coder.end else action)
            seen[i] = worlds[i].step(text)
        alive = [i for i in alive if not seen[i].done]
    count = len(worlds)
    return {
        "tasks": count,
        "success": round(sum(world.success for world in worlds) / count, 4),
        "tokens": round(sum(map(len, histories)) / count, 1),
        "turns": round(turns / count, 2),
    }
