"""Plays an environment of verifiers for Hansa's world `proxy`: ENVIRONMENT PORT.

It is asked by POST for one episode, plays it with the model at the address that comes along, and
answers whether the environment gave the whole reward.
"""

import asyncio
import itertools
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.utils.loaders import env_config_type, load_environment

NUMBERS = itertools.count()


async def play(env: vf.Env, asked: dict[str, Any]) -> dict[str, Any]:
    """What becomes of a task; its number is its place in the task set."""
    number = asked["task"]["number"]
    (task,) = env.taskset.include(idx=[f"{number}:{number + 1}"])
    variable = f"KEY_{next(NUMBERS)}"  # verifiers reads keys from variables alone
    os.environ[variable] = asked["api_key"]
    try:
        client = vf.EvalClientConfig(base_url=asked["base_url"], api_key_var=variable)
        episode = await env.run_episode(task, vf.ModelContext(asked["model"], client))
    finally:
        del os.environ[variable]
    if not episode.ok:
        raise RuntimeError([*episode.errors, *(each.errors for each in episode.traces)])
    reward = episode.traces[0].reward
    return {"success": reward >= 1, "score": reward}


async def serve(name: str, port: int) -> None:
    """Answer until the process ends; all episodes share one event loop."""
    env = load_environment(env_config_type(name)(taskset={"id": name}))
    loop = asyncio.get_running_loop()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            playing = asyncio.run_coroutine_threadsafe(play(env, asked), loop)
            answer = json.dumps(playing.result()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    async with env.serving():
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        print(f"{name} at http://127.0.0.1:{server.server_port}", flush=True)
        await asyncio.to_thread(server.serve_forever)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
