"""Strangers' text on a terminal: shown, never obeyed."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from hansa.api.jobs import Event
from hansa.api.spec import FederationSpec, Metadata
from hansa.api.status import Condition, Federation, FederationStatus
from hansa.cli import common, logs, screen
from hansa.cli.screen import render_run
from hansa.cli.views.federation import RowTable, StatusView
from hansa.core.sanitize import sanitize
from hansa.kubernetes.pod_logs import LogLine
from hansa.local.display import PlainDisplay
from tests.support.builders import NOW
from tests.support.terminal import is_tame

HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe\u2066 \x9b31m \ud800"
"""Clears the screen, sets its title, turns the text around, colours it, and is no Unicode."""
TEXTS = st.text(st.characters(exclude_categories=()))


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="writes escapes for a terminal into logs, messages or names",
    result="shown as `\\u001b`",
)
@given(TEXTS)
def test_no_text_steers_a_terminal(text: str) -> None:
    assert is_tame(sanitize(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("Grüße, 你好 👋", "Grüße, 你好 👋", id="other scripts are text"),
        pytest.param("a\r\nb\tc", "a\nb\tc", id="line ends and tabs stay"),
        pytest.param("cli\u200bnic", "cli\\u200bnic", id="a space without width"),
        pytest.param("cli\u00adnic", "cli\\u00adnic", id="a soft hyphen"),
        pytest.param("\ufeffx\u2060\U000e0041", "\\ufeffx\\u2060\\ue0041", id="tags"),
        pytest.param("\x1b[2J", "\\u001b[2J", id="an escape sequence is shown"),
        pytest.param("a\u202eb", "a\\u202eb", id="so is a mark that turns text around"),
        pytest.param("\ud800", "\\ud800", id="and half a character"),
        pytest.param(None, "None", id="anything has a text"),
    ],
)
def test_what_would_be_obeyed_is_shown(text: Any, shown: str) -> None:
    assert sanitize(text) == shown


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="writes escapes for a terminal into logs, messages or names",
    result="shown as `\\u001b`",
)
def test_logs_of_a_pod_steer_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logs._print_line(LogLine("job", HOSTILE))
    assert is_tame(capsys.readouterr().out)


def test_logs_of_a_local_job_steer_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(HOSTILE.encode(errors="replace"))
    logs._print_from(path, 0)
    assert is_tame(capsys.readouterr().out)


def printed(renderable: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=500).print(renderable)
    return out.getvalue()


def test_the_screen_of_a_federation_steers_no_terminal() -> None:
    table = RowTable(titles=("CONDITION", "MESSAGE"), rows=[("Degraded", HOSTILE)], rest=HOSTILE)
    made = StatusView(
        headline=f"fed: {HOSTILE}",
        phase="Running",
        lines=[HOSTILE],
        warnings=[HOSTILE],
        tables=[table],
        footer=[HOSTILE],
    )
    assert is_tame(printed(screen.render(made)))


def test_the_screen_of_a_run_steers_no_terminal() -> None:
    condition = Condition(
        type="Degraded",
        status="True",
        reason="EnvironmentFailed",
        message=HOSTILE,
        last_transition_time=NOW,
        observed_generation=1,
    )
    spec = FederationSpec.model_validate(
        {"rounds": 1, "environments": [{"name": "maze", "world": "maze"}]}
    )
    run = Federation(
        metadata=Metadata(name="fed"), spec=spec, status=FederationStatus(conditions=[condition])
    )
    assert is_tame(printed(render_run(run)))


def test_what_is_said_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    common.show_error(HOSTILE, HOSTILE)
    PlainDisplay().tell(Event(reason="JobFailed", message=HOSTILE))
    assert is_tame(capsys.readouterr().err)


@pytest.mark.parametrize("output", [common.Format.JSON, common.Format.YAML])
def test_data_keeps_every_character_and_steers_no_terminal(
    output: common.Format, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HOSTILE.replace("\ud800", "")
    common.print_data({"message": text}, output)
    out = capsys.readouterr().out
    assert is_tame(out)
    read = json.loads if output is common.Format.JSON else yaml.safe_load
    assert read(out) == {"message": text}
