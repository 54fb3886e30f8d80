"""docs/aggregation.md names every strategy, parameter and refusal, and its commands work."""

import re
import shlex
from pathlib import Path

import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.api.aggregation import Aggregation
from hansa.api.spec import Adapter
from hansa.api.strategies import BUILTIN
from hansa.cli.main import main
from hansa_server.gate import HELP
from tests.support.merging import draw, make_shapes
from tools import poisoned_table

TEXT = (Path(__file__).parents[2] / "docs" / "aggregation.md").read_text()
COMMANDS = re.findall(r"^\$ (hansa .*?)(?:  #.*)?$", TEXT, flags=re.MULTILINE)


def test_every_strategy_parameter_and_refusal_is_named() -> None:
    models = (Aggregation, *(entry.options for entry in BUILTIN.values()))
    fields = {field.alias for model in models for field in model.model_fields.values()}
    missing = [word for word in {*BUILTIN, *fields} - {"strategy"} if f"`{word}`" not in TEXT]
    assert missing == []
    assert [reason for reason, text in HELP.items() if f"| `{reason}` | {text} |" not in TEXT] == []


def test_its_tables_are_those_of_the_measured_rows() -> None:
    assert poisoned_table.filled(TEXT) == TEXT


def test_its_commands_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate("abc"):
        tensors = draw(seed, make_shapes(4, (6, 5)))
        (tmp_path / name).mkdir()
        (tmp_path / name / bucket_keys.ADAPTER).write_bytes(lora.encode(tensors))
        config = lora.render_config(Adapter(rank=4), "hf:a/b", lora.target_names(tensors))
        (tmp_path / name / bucket_keys.CONFIG).write_bytes(config)
    assert len(COMMANDS) == 3
    for command in COMMANDS:
        if "aggregate" in command and (tmp_path / "merged").exists():
            (tmp_path / "merged").rename(tmp_path / "earlier")
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(command)[1:])
        assert ended.value.code == 0, capsys.readouterr().err
