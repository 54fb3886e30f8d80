"""A cart drives to a shelf: tasks, turns and a reward, as an environment of verifiers."""

import itertools
import random
from collections.abc import Iterator

import verifiers.v1 as vf
from openai import AsyncOpenAI

__all__ = ["CartEnv", "CartTaskset", "PlainChat"]
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
SIZE, MOST_TURNS = 6, 12
Place = tuple[int, int]


class CartData(vf.TaskData):
    place: Place
    shelf: Place


class CartTask(vf.Task[CartData]):
    @vf.reward
    async def is_there(self, trace: vf.Trace) -> float:
        """Whether what the agent wrote drives the cart to the shelf."""
        place = self.data.place
        for message in trace.branches[-1].messages:
            if message.role == "assistant":
                place = drive(place, message.content or "")
        return float(place == self.data.shelf)


class CartTaskset(vf.Taskset[CartTask]):
    INFINITE = True

    def load(self) -> Iterator[CartTask]:
        for number in itertools.count():
            draw = random.Random(number)
            place, shelf = ((draw.randint(1, SIZE), draw.randint(1, SIZE)) for _ in range(2))
            yield CartTask(CartData(place=place, shelf=shelf), self.config.task)


class PlainChat(vf.Harness[vf.HarnessConfig]):
    """Asks once a turn, in this process; the ones that verifiers has fetch packages first."""

    SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        messages = [{"role": each.role, "content": each.content} for each in data.prompt]
        model = AsyncOpenAI(base_url=endpoint, api_key=secret)
        await model.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class CartConfig(vf.EnvConfig):
    driver: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class CartEnv(vf.Env[CartConfig]):
    async def run(self, task: CartTask, agents: vf.Agents) -> None:
        place, shelf, rules = task.data.place, task.data.shelf, "Reach the goal.\n"
        async with agents.driver.interaction(task) as chat:
            for _ in range(MOST_TURNS):
                said = await chat.turn(rules + look(place, shelf))
                place, rules = drive(place, said.last_reply), ""
                if said.terminated or place == shelf:
                    return


def look(place: Place, shelf: Place) -> str:
    return (
        f"The goal is at position {shelf[0]}, {shelf[1]}. Your current position is at position "
        f"{place[0]}, {place[1]}. There are no walls near you."
    )


def drive(place: Place, said: str) -> Place:
    """The last word is the move."""
    down, right = MOVES.get((said.split() or [""])[-1], (0, 0))
    return min(max(place[0] + down, 1), SIZE), min(max(place[1] + right, 1), SIZE)
