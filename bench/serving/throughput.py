"""Requests of `hansa serve`: all at once against one after another, with one adapter and several.

    python bench/serving/throughput.py runs/demo --out bench/serving/results/tiny-2-cores.json

The server is a process of its own, the requests are the same in each way: temperature 2, a seed
each, so that answers have some tokens. Answers are compared, too.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MAZE = (
    "Reach the goal.\nThe goal is at position 8, {place}. Your current position is at position "
    "5, 4. There are walls above you, below you."
)


def main() -> None:
    """Serve, ask in each way, and print a line of JSON for each."""
    given = parse()
    command = [sys.executable, "-m", "hansa.cli.main", "serve", given.where, "--port", "0"]
    command += ["--threads", str(given.threads)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        url = server.stdout.readline().strip()
        rows = [
            measure(url, given, models)
            for models in (["base"], ["final"], ["final", "round-1", "best", "base"])
        ]
    finally:
        server.terminate()
        server.wait()
    text = json.dumps(rows, indent=2) + "\n"
    if given.out:
        given.out.write_text(text)
    print(text, end="")


def measure(url: str, given: argparse.Namespace, models: list[str]) -> dict[str, Any]:
    """Both ways, the second after a first run that warms the server up."""
    bodies = [body(n, models[n % len(models)], given.max_tokens) for n in range(given.requests)]
    ask(url, bodies[:4])
    alone_seconds, alone = timed(lambda: ask(url, bodies))
    with ThreadPoolExecutor(len(bodies)) as pool:
        list(pool.map(lambda one: ask(url, [one]), bodies))
        seconds, together = timed(lambda: list(pool.map(lambda one: ask(url, [one])[0], bodies)))
    tokens = sum(answer["usage"]["completion_tokens"] for answer in alone)
    return {
        "models": models,
        "requests": len(bodies),
        "tokens": tokens,
        "one_after_another_seconds": round(alone_seconds, 3),
        "at_once_seconds": round(seconds, 3),
        "times": round(alone_seconds / seconds, 2),
        "tokens_per_second_at_once": round(tokens / seconds),
        "same_answers": [text(a) for a in alone] == [text(b) for b in together],
    }


def body(number: int, model: str, max_tokens: int) -> bytes:
    message = {"role": "user", "content": MAZE.format(place=number % 10)}
    fields = {"model": model, "messages": [message], "temperature": 2, "seed": number}
    return json.dumps({**fields, "max_tokens": max_tokens}).encode()


def ask(url: str, bodies: list[bytes]) -> list[dict[str, Any]]:
    """The answers, one after another, over one connection."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=600)
    answers = []
    for one in bodies:
        connection.request(
            "POST", "/v1/chat/completions", one, {"Content-Type": "application/json"}
        )
        answers.append(json.load(connection.getresponse()))
    connection.close()
    return answers


def text(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


def timed(work: Any) -> tuple[float, Any]:
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", help="a run with at least one round")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
