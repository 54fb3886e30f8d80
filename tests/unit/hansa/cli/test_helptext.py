"""Every command's help is plain English, without a library's own notation."""

import re
from pathlib import Path
from typing import Any

import pytest

from hansa.cli import main as program
from hansa.cli.validate import summarize
from hansa.core.errors import InputError
from hansa.core.text import count
from hansa.manifests.load import build
from tests.support.builders import make_federation
from tests.support.commands import call

COMMANDS = ["", *program.COMMANDS]
NOTATION = re.compile(
    r"\[\[|\]\]|\{\w+\}|<(int|float|str|path|Path|list)\b|\brange>|x[<>]=|<=x", re.IGNORECASE
)
"""What typer writes of types and bounds, and nobody else reads."""
DIALECT = re.compile(r"stands still|\bmend\b|\bso many\b|\bso far\b|, say\)|it is so\b")


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    """The help of each command."""
    import contextlib
    import io

    texts = {}
    for name in COMMANDS:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
            program.main([*([name] if name else []), "--help"])
        assert stop.value.code == 0
        texts[name] = out.getvalue()
    return texts


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_no_notation_and_no_dialect(helps: dict[str, str], name: str) -> None:
    assert helps[name].strip().startswith(f"Usage: hansa {name}")
    assert NOTATION.findall(helps[name]) == []
    assert DIALECT.findall(" ".join(helps[name].split())) == []
    assert len(helps[name].splitlines()) > 5


@pytest.mark.parametrize(
    "name, words",
    [
        ("wait", "Wait until a federation has succeeded, has ended a round or is deleted"),
        ("wait", "Exit code 0 when that has happened, 1 when it no longer can"),
        ("wait", "--for TEXT What to wait for: succeeded, round=N (round N has ended) or deleted"),
        ("pull", "-e, --environment TEXT Copy the adapter that this environment serves itself"),
        ("policy", "an IAM policy in JSON"),
        ("policy", "An environment's name, or aggregator"),
        ("status", "Usage: hansa status [OPTIONS] [RUN] "),
        ("worlds", "Usage: hansa worlds [OPTIONS] [WORLD]... "),
        ("run", "Usage: hansa run [OPTIONS] FILE "),
        ("aggregate", "Usage: hansa aggregate [OPTIONS] ADAPTER... "),
        ("run", "--parallel N Jobs at a time; default: by cores, GPUs and memory. [1 to 256]"),
        ("demonstrate", "[default: 200; at least 1]"),
        ("compare", "--only TEXT Run only this method; may be given several times"),
    ],
)
def test_help_says_what_a_command_does(helps: dict[str, str], name: str, words: str) -> None:
    assert words in " ".join(helps[name].split())


def test_commands_and_options_end_their_sentences(helps: dict[str, str]) -> None:
    for name, listing in program.COMMANDS.items():
        assert listing.summary.endswith("."), name
        assert len(listing.summary) <= 62, name  # one line of a terminal of 80 columns


def test_the_commands_stand_in_sections(helps: dict[str, str]) -> None:
    titles = re.findall(r"^([A-Z].*):$", helps[""], re.MULTILINE)
    assert titles == [
        *("Options", "Start", "Look", "Worlds", "Serve and share", "On a cluster"),
        *("Between parties", "Tools"),
    ]
    for name, listing in program.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(listing.summary)}$", helps[""], re.MULTILINE)


@pytest.mark.parametrize(
    "worlds, rounds, words",
    [
        (("maze",), 1, "fed has 1 environment (maze) and 1 round on builtin:tiny"),
        (("maze", "wordle"), 2, "fed has 2 environments (maze, wordle) and 2 rounds on builtin:"),
    ],
)
def test_one_is_singular(worlds: tuple[str, ...], rounds: int, words: str) -> None:
    assert summarize(make_federation(*worlds, rounds=rounds)).startswith(words)


def test_a_valid_manifest_is_summed_up_by_its_environments() -> None:
    federation = make_federation(environments=[{"name": n, "world": "maze"} for n in ("a", "b")])
    assert "has 2 environments (a, b) and" in summarize(federation)


def manifest(**spec: Any) -> dict[str, Any]:
    environments = [{"name": "maze", "world": "maze"}]
    head = {"apiVersion": "hansa.dev/v1alpha1", "kind": "Federation", "metadata": {"name": "one"}}
    return {**head, "spec": {"environments": environments, **spec}}


def test_one_other_problem_is_singular() -> None:
    wrong = dict.fromkeys(
        ("epochs", "learningRate", "maxLength", "maxSteps", "cpuThreads", "proximal"), "x"
    )
    with pytest.raises(InputError) as caught:
        build(manifest(rounds="x", training=wrong))
    assert caught.value.hint.endswith(" and 1 other")


def test_a_list_with_too_many_entries_says_how_many_fit() -> None:
    with pytest.raises(InputError) as caught:
        build(manifest(exploration={"stop": ["a"] * 9}))
    assert caught.value.message == (
        "spec.exploration.stop: got 9 entries, expected a list of at most 8 entries"
    )


@pytest.mark.parametrize(
    "number, noun, words", [(1, "entry", "1 entry"), (2, "entry", "2 entries"), (0, "a", "0 as")]
)
def test_things_are_counted_with_the_right_plural(number: int, noun: str, words: str) -> None:
    assert count(number, noun) == words


MANIFESTS = (
    *(("validate",), ("run",), ("compare",), ("apply",), ("join", "--key", "k"), ("privacy",)),
    *(("policy", "maze"), ("invite", "maze", "--key", "k"), ("mail", "maze"), ("model",)),
)
"""Commands that read a manifest, with what else they need."""


@pytest.mark.parametrize("form", ["first", "-f", "--filename", "--filename="])
@pytest.mark.parametrize("command", MANIFESTS, ids=lambda command: command[0])
def test_a_manifest_is_the_first_argument_or_stands_anywhere_after_f(
    command: tuple[str, ...], form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "none.yaml")
    given = {"first": (), "--filename=": (f"--filename={file}",)}.get(form, (form, file))
    first = (file,) if form == "first" else ()
    code, _, err = call(capsys, command[0], *first, *command[1:], *given)
    assert (code, err) == (2, f"error: {file}: got no such file, expected a manifest in YAML\n")


def test_a_command_that_follows_keeps_its_own_f(helps: dict[str, str]) -> None:
    assert "-f, --follow" in helps["logs"] and "--filename" not in helps["logs"]
    assert "-f, --filename FILE The same" in " ".join(helps["run"].split())
