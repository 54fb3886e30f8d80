"""Command lines for a cluster: one place at a time, durations as kubectl writes them."""

from pathlib import Path
from typing import Any

import pytest

from hansa.api.spec import S3
from hansa.cli import main as program
from hansa.cli.target import parse_timeout
from hansa.core.errors import InputError
from hansa.publish.bucket import suggest_forward


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as stop:
        program.main(list(arguments))
    captured = capsys.readouterr()
    return stop.value.code, captured.out, captured.err


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("status", "fed", "--out", "runs/x"), "got NAME (fed) and --out (runs/x)"),
        (("logs", "fed", "--out", "runs/x"), "got NAME (fed) and --out (runs/x)"),
        (("pull", "fed", "--out", "runs/x"), "got NAME (fed) and --out (runs/x)"),
        (("watch", "fed", "--out", "runs/x"), "got NAME (fed) and --out (runs/x)"),
        (("retry", "fed", "--out", "runs/x"), "got NAME (fed) and --out (runs/x)"),
        (("logs",), "got neither NAME nor --out"),
        (("retry", "fed", "--parallel", "2"), "--parallel: got it without --out"),
        (("watch",), "got neither NAME nor --out"),
        (("retry",), "got neither NAME nor --out"),
        (("pull",), "got neither NAME nor --out"),
        (("rollback", "--to", "1"), "got neither NAME nor --out"),
        (("rollback", "fed", "--out", "x", "--to", "1"), "got NAME (fed) and --out (x)"),
        (("rollback", "fed", "--to", "1", "--parallel", "2"), "--parallel: got it without --out"),
        (("rollback", "fed"), "missing option '--to'"),
        (("rollback", "fed", "--to", "-1"), "--to"),
        (("pull", "fed"), "--to: got nothing, expected a folder"),
        (("pull", "--out", "x", "--endpoint", "http://y"), "--endpoint: got it with --out"),
        (("status", "fed", "-A"), "got NAME (fed) and --all-namespaces"),
        (("status", "--all"), "--all: got it without --out"),
        (("wait", "fed", "--for", "rain"), "--for: got 'rain', expected succeeded, round=N"),
        (("wait", "fed", "--for", "round=0"), "--for: got 'round=0'"),
        (("wait", "fed", "--timeout", "soon"), "--timeout: got 'soon', expected a duration"),
        (("apply",), "missing option '-f'"),
        (("status",), "kubeconfig: got none, expected --kubeconfig, $KUBECONFIG"),
        (
            ("watch", "fed", "--kubeconfig", "/no/such"),
            "--kubeconfig: got /no/such, which is not a file",
        ),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert sentence in err.splitlines()[0]


@pytest.mark.parametrize(
    "text, seconds",
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("45", 45), ("0", float("inf"))],
)
def test_durations_are_written_as_for_kubectl(text: str, seconds: float) -> None:
    assert parse_timeout(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1s", "1.5m", "ten"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--timeout"):
        parse_timeout(text)


@pytest.mark.parametrize(
    "endpoint, words",
    [
        (
            "http://minio.storage.svc.cluster.local:9000",
            "-n storage service/minio 9000:9000, then --endpoint http://127.0.0.1:9000",
        ),
        ("https://store", "port-forward service/store 9443:443, then --endpoint https://127.0.0.1"),
    ],
)
def test_the_way_to_a_store_inside_the_cluster_is_spelled_out(endpoint: str, words: str) -> None:
    assert words in suggest_forward(S3(bucket="hansa", endpoint=endpoint))


def test_the_plugin_of_kubectl_names_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl-hansa", "--help"])
    with pytest.raises(SystemExit):
        program.kubectl_main()
    assert "Usage: kubectl hansa" in capsys.readouterr().out
