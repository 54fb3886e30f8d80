"""A federation on a real cluster, from `helm install` to an adapter that PEFT loads."""

import re
from pathlib import Path

import pytest

from tests.cluster.installed import Hansa

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def evolved(hansa: Hansa) -> str:
    """A federation of two worlds that has come to its end."""
    hansa.apply(hansa.manifest("evolves"))
    hansa.finish("evolves")
    return "evolves"


def test_the_adapter_is_byte_for_byte_what_a_local_run_makes(
    hansa: Hansa, evolved: str, local_adapter: dict[str, bytes]
) -> None:
    assert hansa.adapter(evolved) == local_adapter


def test_kubectl_get_shows_phase_round_updates_success_and_age(hansa: Hansa, evolved: str) -> None:
    head, line = hansa.cluster.kubectl("get", "hfed", evolved).stdout.splitlines()
    assert head.split() == ["NAME", "PHASE", "ROUND", "UPDATES", "SUCCESS", "AGE"]
    assert re.fullmatch(r"evolves +Succeeded +2 +2/2 +0\.\d{3} +\w+", line)


def test_the_adapter_in_the_bucket_loads_with_peft(
    hansa: Hansa, evolved: str, tmp_path: Path
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from hansa_client.models import base_model

    for name, data in hansa.adapter(evolved).items():
        (tmp_path / name).write_bytes(data)
    base = AutoModelForCausalLM.from_pretrained(base_model.resolve("builtin:tiny"))
    agent = PeftModel.from_pretrained(base, str(tmp_path))
    assert any(
        weight.abs().sum() > 0 for name, weight in agent.named_parameters() if "lora_B" in name
    )
