"""Requests of `hansa serve`: all at once against one after another, with one adapter and several.

    python bench/serving/throughput.py runs/demo --out runs/serving.json

The server is a process of its own, the requests are the same in each way: temperature 2, a seed
each, so that answers have some tokens. Answers are compared, too.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
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
            measure(server.pid, url, given, models)
            for models in (["base"], ["final"], ["final", "round-1", "best", "base"])
        ]
    finally:
        server.terminate()
        server.wait()
    text = json.dumps(rows, indent=2) + "\n"
    if given.out:
        given.out.write_text(text)
    print(text, end="")


def measure(pid: int, url: str, given: argparse.Namespace, models: list[str]) -> dict[str, Any]:
    """Both ways, in turn and several times, after requests that warm the server up."""
    bodies = [body(n, models[n % len(models)], given.max_tokens) for n in range(given.requests)]
    alone: list[Timed] = []
    together: list[Timed] = []
    with ThreadPoolExecutor(len(bodies)) as pool:
        at_once(pool, url, bodies)
        for _ in range(given.repeat):
            alone.append(timed(pid, lambda: ask(url, bodies)))
            together.append(timed(pid, lambda: at_once(pool, url, bodies)))
    tokens = sum(answer["usage"]["completion_tokens"] for answer in alone[0].answers)
    seconds = {name: median([each.seconds for each in way]) for name, way in ways(alone, together)}
    cpu = {name: median([each.cpu for each in way]) for name, way in ways(alone, together)}
    return {
        "models": models,
        "requests": len(bodies),
        "tokens": tokens,
        "seconds": seconds,
        "server_cpu_seconds": cpu,
        "times": round(seconds["one after another"] / seconds["at once"], 1),
        "times_by_cpu": round(cpu["one after another"] / cpu["at once"], 1),
        "same_answers": len({tuple(map(text, each.answers)) for each in alone + together}) == 1,
    }


class Timed(NamedTuple):
    """What a way took."""

    seconds: float
    cpu: float
    answers: list[dict[str, Any]]


def ways(alone: list[Timed], together: list[Timed]) -> list[tuple[str, list[Timed]]]:
    return [("one after another", alone), ("at once", together)]


def median(values: list[float]) -> float:
    return round(statistics.median(values), 3)


def at_once(pool: ThreadPoolExecutor, url: str, bodies: list[bytes]) -> list[dict[str, Any]]:
    return list(pool.map(lambda one: ask(url, [one])[0], bodies))


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


def timed(pid: int, work: Callable[[], list[dict[str, Any]]]) -> Timed:
    begun, used = time.perf_counter(), cpu_seconds(pid)
    answers = work()
    return Timed(time.perf_counter() - begun, cpu_seconds(pid) - used, answers)


def cpu_seconds(pid: int) -> float:
    """CPU time of the server, which other programs on the machine do not change much."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("where", help="a run with at least one round")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
