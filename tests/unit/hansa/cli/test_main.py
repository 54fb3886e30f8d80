"""The program around the commands: the table, errors, exit codes and clean streams."""

import inspect
import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.cli import main as program
from hansa.cli.common import Format, print_data, run_guarded, to_yaml
from hansa.core.errors import HansaError, InputError, Unreachable
from hansa.manifests.load import load
from hansa.store.access_grants import iam_policy, list_grants
from hansa.version import __version__
from tests.support.commands import call
from tests.support.processes import without_reader

MANIFEST = {
    "apiVersion": "hansa.dev/v1alpha1",
    "kind": "Federation",
    "metadata": {"name": "one"},
    "spec": {
        "storage": {"s3": {"bucket": "hansa", "prefix": "one"}},
        "environments": [{"name": "maze", "world": "maze"}],
    },
}


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    file = tmp_path / "federation.yaml"
    file.write_text(yaml.safe_dump(MANIFEST))
    return str(file)


def install(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """A command `probe` that is found as every other one: by module and name."""
    module = types.ModuleType("hansa_probe")
    module.probe = function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hansa_probe", module)
    listing = program.Listing(target="hansa_probe:probe", summary="Probe.")
    monkeypatch.setitem(program.COMMANDS, "probe", listing)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--help")
    assert code == 0
    for name, listing in program.COMMANDS.items():
        assert f"{name} " in out
        assert listing.summary in out


def test_version_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version") == (0, f"hansa {__version__}\n", "")


@pytest.mark.parametrize(
    "words, sentence",
    [
        pytest.param((), "Usage: hansa", id="no command"),
        pytest.param(
            ("statsu",),
            "error: no such command 'statsu'. Did you mean 'status'?",
            id="a mistyped command",
        ),
        pytest.param(("crd", "-o", "xml"), "xml", id="a wrong output format"),
        pytest.param(
            ("crd", "job"),
            "'job' is not one of 'federation', 'federationmember'",
            id="a kind that is not defined",
        ),
        pytest.param(
            ("policy", "maze", "--experience", "-f"),
            "--experience: got it for maze, whose experience is in no other store",
            id="a policy for a store that there is not",
        ),
        pytest.param(
            ("policy", "mase", "-f"),
            "got 'mase', expected aggregator, maze",
            id="a policy for nobody",
        ),
    ],
)
def test_a_wrong_command_line_prints_a_sentence_and_no_data(
    capsys: pytest.CaptureFixture[str], manifest: str, words: tuple[str, ...], sentence: str
) -> None:
    file = [manifest] if "-f" in words else []
    code, out, err = call(capsys, *words, *file)
    assert (code, out) == (2, "")
    assert sentence in err


def test_an_unknown_option_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "crd", "--nonsense")
    assert code == 2
    assert err == "error: no such option: --nonsense\n\nhint: see 'hansa crd --help'\n"


def test_a_missing_extra_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = program.Listing(target="no_such_package:x", summary="X.", extra="client")
    monkeypatch.setitem(program.COMMANDS, "evaluate", listing)
    code, _, err = call(capsys, "evaluate")
    assert code == 2
    assert err.endswith("hint: pip install 'hansa[client]'\n")


@pytest.mark.parametrize(
    "error, code",
    [
        pytest.param(InputError("spec.x: got 1, expected 2", "try 2"), 2, id="bad input"),
        pytest.param(Unreachable("the store did not answer", "try later"), 44, id="store away"),
        pytest.param(HansaError("it broke", "look"), 1, id="anything else"),
        pytest.param(KeyError("x"), 1, id="a bug, with the way to its traceback"),
    ],
)
def test_an_error_is_a_sentence_a_blank_line_and_a_hint(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: int,
) -> None:
    def probe() -> None:
        raise error

    install(monkeypatch, probe)
    line = inspect.getsourcelines(probe)[1] + 1
    message = f"KeyError: 'x' ({__file__}, line {line})"
    hint = "run it again with --debug for the traceback"
    if isinstance(error, HansaError):
        message, hint = error.message, error.hint
    assert call(capsys, "probe") == (code, "", f"error: {message}\n\nhint: {hint}\n")


def test_debug_shows_the_traceback_wherever_it_stands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe() -> None:
        raise InputError("no")

    install(monkeypatch, probe)
    for arguments in (["--debug", "probe"], ["probe", "--debug"]):
        code, _, err = call(capsys, *arguments)
        assert code == 2
        assert "Traceback" in err
        assert "error: no" in err


def test_a_command_may_return_its_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, lambda: 43)
    assert call(capsys, "probe") == (43, "", "")


def test_an_interrupt_ends_quietly_with_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    install(monkeypatch, probe)
    assert call(capsys, "probe") == (130, "", "")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("crd",), id="printed data"),
        pytest.param(("--help",), id="help"),
        pytest.param(("status", "--help"), id="help of a command"),
        pytest.param(("worlds",), id="a table"),
    ],
)
def test_a_command_whose_reader_has_gone_ends_quietly_as_by_sigpipe(
    arguments: tuple[str, ...],
) -> None:
    ended = without_reader(*arguments)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_a_program_that_ends_by_itself_keeps_its_exit_code() -> None:
    with pytest.raises(SystemExit) as ended:
        run_guarded(lambda: sys.exit(7))
    assert ended.value.code == 7


def test_run_guarded_passes_a_good_end() -> None:
    assert run_guarded(lambda: None) == 0


def test_the_crd_is_printed_as_yaml_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, as_yaml, _ = call(capsys, "crd")
    _, as_json, _ = call(capsys, "crd", "-o", "json")
    listed = json.loads(as_json)
    assert listed["kind"] == "List"
    assert list(yaml.safe_load_all(as_yaml)) == listed["items"]
    names = [each["metadata"]["name"] for each in listed["items"]]
    assert names == ["federations.hansa.dev", "federationmembers.hansa.dev"]


@pytest.mark.parametrize("kind", ["federation", "federationmember"])
def test_one_definition_is_printed_alone(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    _, as_yaml, _ = call(capsys, "crd", kind)
    _, as_json, _ = call(capsys, "crd", kind, "-o", "json")
    assert yaml.safe_load(as_yaml) == json.loads(as_json)
    assert json.loads(as_json)["spec"]["names"]["singular"] == kind


def test_validate_prints_the_manifest_with_defaults(
    capsys: pytest.CaptureFixture[str], manifest: str
) -> None:
    code, out, err = call(capsys, "validate", manifest, "-o", "json")
    document = json.loads(out)
    assert code == 0
    assert document["spec"]["rounds"] == 20
    assert document["metadata"] == {"name": "one", "namespace": "default"}
    assert "status" not in document
    assert "only the bucket's policy keeps trajectories apart" in err


DIGESTS = {"model": {"sha256": "a" * 64}, "adapter": {"shapes": "b" * 64}}


@pytest.mark.parametrize(
    "secrets, spec, missing",
    [
        pytest.param(["a", "b"], {}, "spec.model.sha256 and spec.adapter.shapes are", id="both"),
        pytest.param(["a", "b"], {"model": DIGESTS["model"]}, "spec.adapter.shapes is", id="one"),
        pytest.param(["a", "b"], DIGESTS, "", id="neither"),
        pytest.param(["a", "a"], {}, "", id="of one party"),
        pytest.param([None, None], {}, "", id="of one machine"),
    ],
)
def test_validate_warns_where_parties_could_outvote_each_other(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    secrets: list[str | None],
    spec: dict[str, Any],
    missing: str,
) -> None:
    environments = [
        {"name": f"e{index}", "world": "maze"}
        | ({"credentialsSecret": {"name": secret}} if secret else {})
        for index, secret in enumerate(secrets)
    ]
    file = tmp_path / "federation.yaml"
    file.write_text(yaml.safe_dump({**MANIFEST, "spec": {**spec, "environments": environments}}))
    code, _, err = call(capsys, "validate", str(file))
    [*said] = [line for line in err.splitlines() if "hansa model" in line]
    assert code == 0
    if not missing:
        assert said == []
        return
    assert said == [
        f"note: {missing} absent: the first round's majority decides which base model and shapes "
        "count, and of two parties either can stop the other; `hansa model FILE` prints them"
    ]


def test_what_validate_prints_is_valid_again(
    capsys: pytest.CaptureFixture[str], manifest: str, tmp_path: Path
) -> None:
    _, out, _ = call(capsys, "validate", manifest, "-o", "yaml")
    again = tmp_path / "again.yaml"
    again.write_text(out)
    assert call(capsys, "validate", str(again))[0] == 0


@pytest.mark.parametrize(
    "options, given",
    [([], {}), (["--minio"], {"minio": True}), (["--write-once"], {"write_once": True})],
)
def test_a_policy_names_what_one_party_may_do(
    capsys: pytest.CaptureFixture[str], manifest: str, options: list[str], given: dict[str, bool]
) -> None:
    code, out, _ = call(capsys, "policy", "maze", "-f", manifest, *options)
    granted = list_grants(load(manifest, here=False).spec, "maze")
    assert (code, json.loads(out)) == (0, iam_policy(granted, **given))


def test_yaml_repeats_a_value_instead_of_an_alias() -> None:
    shared = ["a"]
    assert to_yaml({"x": shared, "y": shared}) == "x:\n- a\ny:\n- a\n"


def test_data_keeps_its_letters(capsys: pytest.CaptureFixture[str]) -> None:
    print_data({"ü": 1}, Format.JSON)
    assert "ü" in capsys.readouterr().out


def test_completion_offers_the_commands() -> None:
    environment = {
        **os.environ,
        "_HANSA_COMPLETE": "complete_bash",
        "COMP_WORDS": "hansa val",
        "COMP_CWORD": "1",
    }
    ended = subprocess.run(
        [sys.executable, "-c", "from hansa.cli.main import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.split() == ["validate"]
