"""The same desk with smolagents: its agent asks the model, calls the tools and ends by itself."""

import json
import os
import random
from pathlib import Path
from typing import ClassVar

from smolagents import OpenAIModel, Tool, ToolCallingAgent

TOPICS = {"printer": "office", "password": "accounts", "invoice": "billing", "server": "systems"}
MOST_STEPS = 4


class FindTeam(Tool):
    name = "find_team"
    description = "Which team cares about a topic."
    inputs: ClassVar = {
        "topic": {"type": "string", "description": "printer, password, invoice or server"}
    }
    output_type = "string"

    def forward(self, topic: str) -> str:
        return TOPICS.get(topic, "unknown topic")


if __name__ == "__main__":
    number = json.loads(os.environ["HANSA_TASK"])["number"]
    topic = random.Random(number).choice(sorted(TOPICS))
    model = OpenAIModel(
        model_id="agent",
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
    )
    agent = ToolCallingAgent(tools=[FindTeam()], model=model, max_steps=MOST_STEPS)
    team = agent.run(f"Something is wrong with my {topic}. Answer with the team for it alone.")
    success = str(team).strip() == TOPICS[topic]
    Path(os.environ["HANSA_RESULT"]).write_text(json.dumps({"success": success}))
