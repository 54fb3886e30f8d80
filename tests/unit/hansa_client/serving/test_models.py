"""Models of transformers are served by the same slots as the builtin one."""

from pathlib import Path

import openai
import torch

from hansa_client.models import base_model
from hansa_client.serving.life import ServingSettings, run_server
from hansa_client.serving.sources import AdapterSource

SAID = "Reach the goal . There are no walls near you"


def test_a_model_of_transformers_answers_as_it_generates(random_model: Path) -> None:
    source = f"path:{random_model}"
    base = base_model.load(source, random_model, 1)
    tokens = base.chat.encode_dialogue([SAID])
    written = base.model.generate(
        torch.tensor([tokens]), do_sample=False, max_new_tokens=12, eos_token_id=base.chat.stops
    )[0, len(tokens) :]
    expected = base.chat.decode(written.tolist())
    with run_server(
        AdapterSource(model=source, entries=[]), ServingSettings(port=0, slots=4)
    ) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        answer = client.chat.completions.create(
            model="base",
            messages=[{"role": "user", "content": SAID}],
            temperature=0,
            max_tokens=12,
        )
        client.close()
    assert answer.choices[0].message.content == expected
    assert answer.usage and answer.usage.prompt_tokens == len(tokens)
