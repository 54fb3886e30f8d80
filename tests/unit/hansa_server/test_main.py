"""hansa-server as a process: light to start, and clear when it cannot work."""

import json
import os
import subprocess
import sys

import pytest

from hansa.api.assignment import ENV_ASSIGNMENT, ENV_REPORT
from hansa.api.spec import S3
from tests.unit.hansa_server.rounds import full_round


def start(code: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


LIST_MODULES = "import sys, json, hansa_server.__main__; print(json.dumps(list(sys.modules)))"


def test_the_server_imports_neither_torch_nor_a_cluster_library():
    ended = start(["-c", LIST_MODULES])
    loaded = {name.split(".")[0] for name in json.loads(ended.stdout)}
    assert not loaded & {"torch", "transformers", "peft", "kopf", "kubernetes", "rich", "typer"}
    assert not loaded & {"hansa_client", "hansa_operator"}


@pytest.mark.parametrize("argument, code", [("--help", 0), ("--nonsense", 2)])
def test_arguments_are_answered_with_the_usage(argument, code):
    ended = start(["-m", "hansa_server", argument])
    assert ended.returncode == code
    assert ended.stderr.startswith("usage: hansa-server")


def test_a_warm_server_forks_a_process_for_an_assignment(tmp_path):
    line = {"start": "job", "environ": {ENV_ASSIGNMENT: "{}"}, "log": str(tmp_path / "log")}
    warm = subprocess.Popen(
        [sys.executable, "-m", "hansa_server", "--warm"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert "ready" in json.loads(warm.stdout.readline())
        warm.stdin.write(json.dumps(line) + "\n")
        warm.stdin.flush()
        assert json.loads(warm.stdout.readline())["started"] == "job"
        assert json.loads(warm.stdout.readline()) == {"exited": "job", "code": 42}
        warm.stdin.close()
        assert warm.wait(30) == 0
    finally:
        warm.kill()
        warm.stdout.close()
    assert "HANSA_ASSIGNMENT: role" in (tmp_path / "log").read_text()


def test_without_an_assignment_the_server_says_so_and_ends_for_good():
    ended = start(["-m", "hansa_server"], **{ENV_ASSIGNMENT: ""})
    assert ended.returncode == 42
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    assert "HANSA_ASSIGNMENT: got nothing" in line


def test_a_store_that_does_not_answer_has_its_own_exit(tmp_path):
    nobody = S3(endpoint="http://127.0.0.1:9", bucket="hansa")
    assignment = full_round().assignment(storage=nobody)
    report = tmp_path / "report.json"
    ended = start(
        ["-m", "hansa_server"],
        **{
            ENV_ASSIGNMENT: assignment.model_dump_json(by_alias=True, exclude_none=True),
            ENV_REPORT: str(report),
            "HANSA_STORE_PATIENCE_SECONDS": "0",
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "not-a-secret-at-all",
        },
    )
    assert ended.returncode == 44, ended.stderr
    assert not report.exists()
    assert "127.0.0.1:9" in ended.stderr
    assert "not-a-secret-at-all" not in ended.stderr
