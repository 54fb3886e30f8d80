"""Command lines for a cluster: one place at a time, durations as kubectl writes them."""

import json
from pathlib import Path

import pytest

from hansa.api.spec import S3
from hansa.api.status import Federation, FederationStatus
from hansa.cli import main as program
from hansa.cli.target import ClusterOptions, parse_timeout
from hansa.core.errors import InputError
from hansa.local.loop import RunOptions
from hansa.local.rundir import RunDir
from hansa.publish.bucket import suggest_forward
from tests.support.builders import make_federation, with_status
from tests.support.commands import call

LOOKING = (
    *("status", "watch", "logs", "report", "pull", "audit", "trajectories", "retry", "serve"),
    "chat",
)
"""Commands of a run or a federation that need nothing else."""
PAUSING = ("suspend", "resume", "wait", "delete")
"""Commands of a federation on the cluster."""


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)  # a folder with runs is listed


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("status", "fed", "--member", "x"), "got fed and --member x, expected one of them"),
        (("logs", "fed", "--member", "x"), "got fed and --member x, expected one of them"),
        (("logs",), "got neither a name nor --member"),
        (("retry", "fed", "--parallel", "2"), "--parallel: got it with the federation fed"),
        *(((command,), "missing argument 'RUN'") for command in ("watch", "retry", "pull")),
        *(((command, "no/run"), "RUN: got no/run, which holds no run") for command in LOOKING),
        *(((command, "a/run"), "NAME: got a/run, a run on this machine") for command in PAUSING),
        (("rollback", "--to", "1"), "missing argument 'RUN'"),
        (("rollback", "fed", "--to", "1", "--parallel", "2"), "--parallel: got it with the fed"),
        (("rollback", "fed"), "missing option '--to'"),
        (("rollback", "fed", "--to", "-1"), "--to"),
        (("pull", "fed"), "--to: got nothing, expected a folder"),
        (("pull", "./x", "--endpoint", "http://y"), "--endpoint: got it with the folder ./x"),
        (("status", "fed", "-A"), "got fed and --all-namespaces"),
        (("status", "--all"), "--all: it is for a run's folder"),
        (("wait", "fed", "--for", "rain"), "--for: got 'rain', expected succeeded, round=N"),
        (("wait", "fed", "--for", "round=0"), "--for: got 'round=0'"),
        (("wait", "fed", "--timeout", "soon"), "--timeout: got 'soon', expected a duration"),
        (("apply",), "missing argument 'FILE'"),
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


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run in `fed`, another one in `runs/mine`, and files in `notes`."""
    for name in ("fed", "runs/mine"):
        (tmp_path / name).mkdir(parents=True)
        RunDir(tmp_path / name).save(make_federation("maze"))
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("run", ["fed", "./fed", "fed/", "runs/mine", "nowhere/run"])
def test_a_run_is_named_by_its_folder(here: Path, run: str) -> None:
    folder = ClusterOptions().find_run(run)
    assert folder is not None and folder.path == Path(run)


@pytest.mark.parametrize("run, cluster", [("two-worlds", ""), ("notes", ""), ("fed", "staging")])
def test_any_other_name_is_that_of_a_federation(here: Path, run: str, cluster: str) -> None:
    """So is one of a folder with a run in it, where a context says that a cluster is meant."""
    assert ClusterOptions(context=cluster or None).find_run(run) is None


@pytest.mark.parametrize("run", ["fed", "runs/mine"])
def test_status_takes_a_run_as_its_first_argument(
    here: Path, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, "status", run)
    assert (code, err) == (0, "")
    assert out.startswith("fed: Pending, 0 of ")


def in_phase(phase: str) -> Federation:
    """A federation in its first round."""
    return with_status(make_federation("maze"), FederationStatus(phase=phase, round=1))


def test_status_without_a_cluster_lists_the_runs_that_are_here(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RunDir(here / "runs/mine").save(in_phase("Running"))
    code, out, err = call(capsys, "status")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert [row[:3] for row in rows] == [
        ["NAME", "PHASE", "ROUND"],
        ["fed", "Pending", "0/2"],
        ["runs/mine", "Stopped", "1/2"],
    ]
    code, out, _ = call(capsys, "status", "-o", "json")
    assert [item["metadata"]["name"] for item in json.loads(out)["items"]] == ["fed", "fed"]


@pytest.mark.parametrize("words", [("--context", "x"), ("-n", "y"), ("-A",)])
def test_status_lists_no_run_where_a_cluster_is_asked_for(
    here: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, "status", *words)
    assert (code, out) == (2, "") and "kubeconfig: got none" in err


def test_a_retry_takes_the_keys_of_a_run_and_the_hint_gives_them_back(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[RunOptions] = []

    def run_loop(_: object, __: object, options: RunOptions, *rest: object) -> Federation:
        asked.append(options)
        return in_phase("Failed")

    monkeypatch.setattr("hansa.local.loop.run", run_loop)
    keys = ("--signing-key", "s.key", "--sealing-key", "o.key", "--masking-keys", "my keys")
    code, _, err = call(capsys, "retry", "runs/mine", "--parallel", 2, *keys)
    assert code == 1
    assert (asked[0].signing_key, asked[0].sealing_key) == (Path("s.key"), Path("o.key"))
    assert (asked[0].masking_keys, asked[0].parallel) == (Path("my keys"), 2)
    assert (
        "`hansa retry runs/mine --parallel 2 --signing-key s.key --sealing-key o.key "
        "--masking-keys 'my keys'`"
    ) in err


@pytest.mark.parametrize("command", [("retry",), ("rollback", "--to", "0")])
@pytest.mark.parametrize("option", ["--signing-key", "--sealing-key", "--masking-keys"])
def test_a_federation_keeps_its_keys_on_the_cluster(
    command: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, command[0], "far", *command[1:], option, "x")
    assert code == 2
    assert f"{option}: got it with the federation far; it is for a run's folder" in err


UNREACHABLE = """
apiVersion: v1
kind: Config
current-context: far
contexts: [{name: far, context: {cluster: far, user: me}}]
clusters: [{name: far, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: me, user: {token: none}}]
"""
"""A kubeconfig of a cluster that does not answer."""


@pytest.mark.parametrize(
    "config, why",
    [
        (UNREACHABLE, "http://127.0.0.1:9: the cluster does not answer"),
        ("kind: Config", "kubeconfig: config: "),
    ],
)
def test_status_lists_the_runs_also_where_the_cluster_does_not_answer(
    here: Path,
    config: str,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (here / "config").write_text(config)
    monkeypatch.setenv("KUBECONFIG", "config")
    code, out, err = call(capsys, "status")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "fed", "runs/mine"]
    assert err.startswith(f"note: no federation of the cluster is listed: {why}")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["watch", "report", "pull", "retry", "serve"])
def test_the_folder_of_a_silo_is_called_one(
    here: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "runs/silo").mkdir()
    (here / "runs/silo/member.json").write_text("{}")
    code, out, err = call(capsys, command, "runs/silo")
    assert (code, out) == (2, "")
    assert err == (
        "error: RUN: got runs/silo, which is the folder of a silo that joined another party's "
        "federation, not a run\n\nhint: `hansa status runs/silo` and `hansa logs runs/silo` "
        "show it\n"
    )


@pytest.mark.parametrize("command", ["serve", "chat", "watch", "pull"])
@pytest.mark.parametrize("option", ["--context", "--kubeconfig"])
def test_an_option_that_chooses_a_cluster_means_it_whatever_folder_is_here(
    here: Path, command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "fed" / "adapter_config.json").write_text("{}")
    (here / "other").write_text("kind: Config")
    more = ("--to", "x") if command == "pull" else ()
    code, _, err = call(capsys, command, "fed", option, "other", *more)
    assert (code, err.split()[1]) == (2, "kubeconfig:")
