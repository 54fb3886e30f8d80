"""Episodes per second: Hansa's rollout against the two loops that agents are usually played with.

    python bench/rollout/compare.py --model builtin:tiny --out tiny.json
    python bench/rollout/compare.py --model path:.cache/models/smollm2-135m --out smollm2.json

`sequential` is AgentGym's loop by its description: one episode at a time, each turn a `generate`
of transformers from the first token on. `lock-step` generates for all episodes at once, also from
the first token on. All play the same tasks with the same prompts, temperature and limits, by
other random numbers. `sequential` stops after a number of episodes or seconds, whatever is first.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hansa_client.models import base_model
from hansa_client.models.base_model import Base
from hansa_client.rollout import episodes, tasks
from hansa_client.rollout.live_episodes import EpisodeJob, LiveEpisode, RolloutConfig
from hansa_worlds import DEMO_OPTIONS, World, make

Way = Callable[
    [Base, Callable[[], World], Sequence[EpisodeJob], RolloutConfig], tuple[int, int, int]
]
"""Plays jobs: episodes, successes and generated tokens."""


def main() -> None:
    """Play every world in every way, and write after each what is known by then."""
    given = parse()
    base = base_model.load(given.model, base_model.resolve(given.model), given.threads)
    by_library = base
    if base_model.is_builtin(given.model):
        folder = base_model.resolve(given.model)
        by_library = base_model.load(given.model, folder, given.threads, for_peft=True)
    rows: list[dict[str, Any]] = []
    for world in given.worlds:
        make_world = maker(given.model, world)
        jobs = tasks.choose_held_out_jobs(make_world().tasks("train"), given.episodes, seed=7)
        jobs = (jobs * -(-given.episodes // len(jobs)))[: given.episodes]
        how = RolloutConfig(
            temperature=1.0,
            max_length=base.cap_length(given.max_length),
            batch_episodes=given.batch or given.episodes,
            max_new_tokens=given.max_new_tokens,
            round=1,
            source="exploration",
        )
        for name in given.ways:
            agent = base if name == "hansa" else by_library
            limited = jobs[: given.sequential] if name == "sequential" else jobs
            rows.append(measure(name, agent, make_world, limited, how, given.seconds))
            rows[-1] |= {"world": world, "model": given.model}
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            given.out.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


def parse() -> argparse.Namespace:
    """What to play."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="builtin:tiny")
    parser.add_argument("--worlds", nargs="+", default=["maze", "textcraft"])
    parser.add_argument("--ways", nargs="+", default=["hansa", "lock-step", "sequential"])
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--batch", type=int, help="of hansa's; absent: all episodes")
    parser.add_argument("--sequential", type=int, default=8, help="episodes one at a time")
    parser.add_argument("--seconds", type=float, default=60, help="for episodes one at a time")
    parser.add_argument("--max-new-tokens", type=int, default=48)
    parser.add_argument("--max-length", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("rollout.json"))
    return parser.parse_args()


def maker(source: str, world: str) -> Callable[[], World]:
    """The world as the model knows it: the builtin one was trained on short texts."""
    options = DEMO_OPTIONS[world] if base_model.is_builtin(source) else {}
    return lambda: make(world, options)


def measure(
    name: str,
    base: Base,
    make_world: Callable[[], World],
    jobs: Sequence[EpisodeJob],
    how: RolloutConfig,
    seconds: float,
) -> dict[str, Any]:
    """One way's figures, after a short warm-up."""
    short = replace(how, max_new_tokens=2)
    with torch.inference_mode():
        played(name, base, make_world, jobs[:2], short, 5.0)
        synchronize(base)
        wall, cpu = time.perf_counter(), time.process_time()
        episodes, successes, generated = played(name, base, make_world, jobs, how, seconds)
        synchronize(base)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "way": name,
        "episodes": episodes,
        "successes": successes,
        "seconds": round(wall, 3),
        "cpu_seconds": round(cpu, 3),
        "episodes_per_second": round(episodes / wall, 4),
        "generated": generated,
        "tokens_per_second": round(generated / wall, 1),
    }


def played(
    name: str,
    base: Base,
    make_world: Callable[[], World],
    jobs: Sequence[EpisodeJob],
    how: RolloutConfig,
    seconds: float,
) -> tuple[int, int, int]:
    """Episodes, successes and generated tokens."""
    if name == "hansa":
        result = episodes.play(base, make_world, jobs, how)
        return len(result.episodes), result.successes, result.generated
    if name == "lock-step":
        return total(loop(base, make_world, jobs, how))
    live: list[LiveEpisode] = []
    until = time.perf_counter() + seconds
    for job in jobs:
        live += loop(base, make_world, [job], how)
        if time.perf_counter() > until:
            break
    return total(live)


def total(live: Sequence[LiveEpisode]) -> tuple[int, int, int]:
    """The figures of what was played."""
    return len(live), sum(one.success for one in live), sum(one.written for one in live)


def loop(
    base: Base, make_world: Callable[[], World], jobs: Sequence[EpisodeJob], how: RolloutConfig
) -> list[LiveEpisode]:
    """The usual loop: every turn is generated from the whole dialogue."""
    live = [LiveEpisode(make_world(), job, how) for job in jobs]
    texts: dict[int, list[int]] = {}
    for number, one in enumerate(live):
        one.start()
        one.observe(base.chat.encode_observations([one.observation], first=True)[0])
        texts[number] = list(one.pending)
    while going := [number for number, one in enumerate(live) if not one.done]:
        written = generate(base, [texts[number] for number in going], how)
        for number, tokens, text in zip(going, written, base.chat.decode_all(written), strict=True):
            one = live[number]
            one.answer(tokens, text)
            one.act()
            if not one.done:
                read = base.chat.encode_observations([one.observation], first=False)[0]
                one.observe([base.chat.end, *read] if tokens[-1] != base.chat.end else read)
                texts[number] += tokens[:-1] + one.pending
    for one in live:
        one.close()
    return live


def generate(base: Base, texts: Sequence[list[int]], how: RolloutConfig) -> list[list[int]]:
    """The next turn of each dialogue by transformers' own `generate`, padded on the left."""
    width = max(len(text) for text in texts)
    rows = [[0] * (width - len(text)) + text for text in texts]
    mask = [[0] * (width - len(text)) + [1] * len(text) for text in texts]
    found = base.model.generate(
        input_ids=torch.tensor(rows, device=base.device),
        attention_mask=torch.tensor(mask, device=base.device),
        do_sample=how.temperature > 0,
        temperature=how.temperature,
        top_k=0,
        top_p=1.0,
        max_new_tokens=how.max_new_tokens,
        eos_token_id=base.chat.stops,
        pad_token_id=base.chat.end,
    )[:, width:].tolist()
    return [until_stop(row, base.chat.stops) for row in found]


def until_stop(tokens: list[int], stops: Sequence[int]) -> list[int]:
    """The tokens up to and with the first that ends the turn."""
    for place, token in enumerate(tokens):
        if token in stops:
            return tokens[: place + 1]
    return tokens


def synchronize(base: Base) -> None:
    """Wait for what the device still does."""
    if base.device.type == "cuda":
        torch.cuda.synchronize(base.device)


def machine() -> dict[str, Any]:
    """Where this ran, and how busy it was."""
    is_gpu = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if is_gpu else "cpu",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    main()
