"""No library is ever left to ask whether to run a model's own code."""

import ast
from pathlib import Path

import pytest

from tests.support.sources import FILES, ROOT, nodes

LOADED = [*FILES, *sorted((ROOT / "tools").rglob("*.py")), *sorted((ROOT / "bench").rglob("*.py"))]


def unsaid(file: Path) -> list[int]:
    """Lines on which transformers loads something without being told to run no code of it."""
    return [
        node.lineno
        for node in nodes(file)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "from_pretrained"
        and ast.unparse(node.func.value).startswith("Auto")
        and not any(
            word.arg == "trust_remote_code" and ast.unparse(word.value) == "False"
            for word in node.keywords
        )
    ]


@pytest.mark.attack(
    by="the author of a Federation",
    does="names a base model with code of its own (`auto_map`)",
    result="refused; no prompt offers to run it",
)
def test_a_model_is_loaded_without_its_code() -> None:
    assert [f"{file.relative_to(ROOT)}:{line}" for file in LOADED for line in unsaid(file)] == []


def test_a_call_that_leaves_it_open_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text(
        "AutoModel.from_pretrained('x')\nAutoModel.from_pretrained('x', trust_remote_code=False)\n"
    )
    assert unsaid(file) == [1]
