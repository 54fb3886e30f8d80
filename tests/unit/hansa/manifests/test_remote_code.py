"""Folders of base models that ask for code: each is refused with the setting."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansa.manifests.remote_code import find_remote_code


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        ({"auto_map": {"AutoModel": "code.Model"}}, "config.json has auto_map"),
        ({"attn_implementation": "org/kernel"}, "config.json has attn_implementation 'org/kernel'"),
        ({"_attn_implementation": "org/k@v1:f"}, "has _attn_implementation 'org/k@v1:f'"),
        (
            {"text_config": {"attn_implementation": {"": "org/kernel"}}},
            "has text_config.attn_implementation",
        ),
        ({"experts_implementation": "org/experts"}, "has experts_implementation 'org/experts'"),
        ({"use_kernels": True}, "has use_kernels true"),
        ({"kernel_config": {"RMSNorm": "org/norm"}}, "has kernel_config"),
    ],
)
def test_a_model_that_asks_for_code_is_refused(
    tmp_path: Path, config: dict[str, Any], setting: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert setting in find_remote_code(tmp_path)


@pytest.mark.parametrize(
    "config",
    [{}, {"attn_implementation": "sdpa", "use_kernels": False}, {"_name_or_path": "org/model"}],
)
def test_a_model_that_asks_for_none_is_taken(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert find_remote_code(tmp_path) == ""
