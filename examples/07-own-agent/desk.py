"""A desk routes tickets by tools: a loop of calls with the `openai` client."""

import json
import os
import random
from pathlib import Path
from typing import Any

from openai import OpenAI

TOPICS = {"printer": "office", "password": "accounts", "invoice": "billing", "server": "systems"}
MOST_TURNS = 6


def tool(name: str, about: str, *fields: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {field: {"type": "string"} for field in fields},
        "required": list(fields),
    }
    function = {"name": name, "description": about, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [
    tool("find_team", "Which team cares about a topic.", "topic"),
    tool("route", "Send the ticket to a team. Do this once, at the end.", "team"),
]


def play(model: OpenAI, number: int) -> bool:
    """Let the model route one ticket; whether it is the right team's."""
    topic = random.Random(number).choice(sorted(TOPICS))
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You route tickets. Find the team, then route the ticket."},
        {"role": "user", "content": f"Ticket {number}: something is wrong with my {topic}."},
    ]
    for _ in range(MOST_TURNS):
        answer = model.chat.completions.create(model="agent", messages=messages, tools=TOOLS)
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            messages.append({"role": "user", "content": "Call a tool."})
        for call in message.tool_calls or []:
            given = json.loads(call.function.arguments)
            if call.function.name == "route":
                return given.get("team") == TOPICS[topic]
            found = TOPICS.get(str(given.get("topic")), "unknown topic")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
    return False


if __name__ == "__main__":
    task = json.loads(os.environ["HANSA_TASK"])
    success = play(OpenAI(), task["number"])
    Path(os.environ["HANSA_RESULT"]).write_text(json.dumps({"success": success}))
