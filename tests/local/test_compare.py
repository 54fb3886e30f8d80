"""`hansa compare` as people use it: killed, gone on with, read again on another machine."""

import json
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hansa.api.bucket_documents import sum_tallies
from hansa.compare import cluster, comparison, scoring
from hansa.compare.comparison import CheckedComparison, Run
from hansa.compare.results import RunResult
from hansa.local.loop import open_embedded, use_embedded
from hansa.local.results import open_store
from hansa.local.rundir import RunDir
from hansa.store.base import ObjectStore
from tests.support import small
from tests.support.commands import call
from tests.support.memory_store import Replaced
from tests.support.processes import kill, until
from tests.support.small import hansa

pytestmark = pytest.mark.slow

METHODS = ("fed-se", "local-evolution")
NAMES = ("base", "centre")
"""What scoring calls the base and a pool of worlds."""


class Compare(small.Run):
    """`hansa compare` in a process group of its own."""

    command = "compare"


def write_comparison(folder: Path, **changes: Any) -> Path:
    small.write_manifest(folder, rounds=1, evaluation={"tasks": 4})
    document = {"federation": "federation.yaml", "seeds": [1, 2], "methods": METHODS, **changes}
    path = folder / "compare.yaml"
    path.write_text(json.dumps(document))
    return path


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("results/*.json")}


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A comparison that was stopped at once, killed hard after its first result, and went on."""
    folder = tmp_path_factory.mktemp("compare")
    file, out = write_comparison(folder), folder / "out"
    with Compare(file, out) as stopped:
        until(lambda: "begins" in stopped.said, "a run to begin")
        assert stopped.kill(signal.SIGINT) == 130
        assert "nothing is lost" in stopped.said
    with Compare(file, out) as begun:
        until(lambda: files(out), "the first result")
        begun.kill()
    first = files(out)
    assert 1 <= len(first) < 4
    with Compare(file, out) as again:
        again.finish()
    assert {name: files(out)[name] for name in first} == first, "a finished run was run again"
    yield out


def test_killed_at_any_moment_it_goes_on_and_has_every_run_once(resumed: Path) -> None:
    assert set(files(resumed)) == {f"{m}-{s}.json" for m in METHODS for s in (1, 2)}
    assert list((resumed / "runs").iterdir()) == []  # folders go when their result is written


def test_its_rows_have_what_docs_are_made_from(resumed: Path) -> None:
    data = json.loads((resumed / "compare.json").read_text())
    assert data["missing"] == []
    names = [line["name"] for line in data["table"]]
    assert names == ["fed-se", "local-evolution", "local-evolution, all worlds"]
    wanted = {"model", "method", "seed", "world", "round", "success", "tasks", "episodes"}
    assert all(wanted <= row.keys() and len(row["interval"]) == 2 for row in data["rows"])
    local = [row for row in data["rows"] if row["method"] == "local-evolution"]
    pairs = {(row["of"], row["environment"]) for row in local if row["round"]}
    assert pairs == {(a, b) for a in small.ENVIRONMENTS for b in small.ENVIRONMENTS}
    sent = {line["name"]: (line["shares"], line["megabytes"]) for line in data["table"][:2]}
    assert sent["local-evolution"] == ("nothing", 0) and sent["fed-se"][1] > 0.1


def test_all_methods_of_a_seed_begin_with_the_same_score_on_the_same_tasks(resumed: Path) -> None:
    rows = json.loads((resumed / "compare.json").read_text())["rows"]
    for seed in (1, 2):
        base = {
            (row["method"], row["environment"]): row["success"]
            for row in rows
            if row["seed"] == seed and row["round"] == 0
        }
        for environment in small.ENVIRONMENTS:
            assert len({base[method, environment] for method in METHODS}) == 1


def test_its_results_can_be_read_on_another_machine(resumed: Path, tmp_path: Path) -> None:
    shutil.copytree(resumed / "results", tmp_path / "out/results")
    file = write_comparison(tmp_path)
    read = hansa("compare", file, "--out", tmp_path / "out", "--report-only", "-o", "json")
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout) == json.loads((resumed / "compare.json").read_text())
    again = hansa("compare", file, "--out", tmp_path / "out")
    assert "every run is over" in again.stderr
    assert again.stdout.splitlines()[0].split()[:2] == ["METHOD", "MACRO"]
    assert (tmp_path / "out/compare.html").read_text().startswith("<!doctype html>")


def test_a_run_whose_last_adapter_was_not_played_everywhere_says_how_to_run_it_again(
    resumed: Path, tmp_path: Path
) -> None:
    shutil.copytree(resumed / "results", tmp_path / "out/results")
    result = tmp_path / "out/results/fed-se-2.json"
    data = json.loads(result.read_text())
    data["rows"] = [r for r in data["rows"] if r["round"] == 0 or r["environment"] != "maze"]
    result.write_text(json.dumps(data))
    read = hansa("compare", write_comparison(tmp_path), "--out", tmp_path / "out", "--report-only")
    assert read.returncode == 0, read.stderr
    assert "missing: fed-se-2\n" in read.stderr
    assert f"to run it again remove {result}" in read.stderr


def test_a_changed_spec_is_refused_before_any_work(resumed: Path, tmp_path: Path) -> None:
    file = write_comparison(tmp_path, spec={"adapter": {"rank": 4}})
    shutil.copytree(resumed / "results", tmp_path / "out/results")
    refused = hansa("compare", file, "--out", tmp_path / "out")
    assert refused.returncode == 2
    assert "was made with spec.adapter.rank 8, the comparison now says 4" in refused.stderr


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        pytest.param(["--only", "fedit"], "--only: got 'fedit', expected one of fed-se", id="only"),
        pytest.param(["--report-only"], "which has no result of this comparison", id="no result"),
        pytest.param(["--jobs", "0"], "--jobs", id="no jobs"),
    ],
)
def test_bad_options_are_one_sentence(
    tmp_path: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_comparison(tmp_path)
    code, _, err = call(capsys, "compare", file, "--out", tmp_path / "out", *arguments)
    assert code == 2
    assert sentence in err and "Traceback" not in err


def test_a_run_that_fails_is_told_and_named_as_missing(tmp_path: Path) -> None:
    file = write_comparison(
        tmp_path, seeds=[1], methods=["pre-trained"], spec={"training": {"maxLength": 16}}
    )
    (tmp_path / "out/runs").mkdir(parents=True)
    (tmp_path / "out/runs/pre-trained-1").write_text("in the way")
    ended = hansa("compare", file, "--out", tmp_path / "out")
    assert ended.returncode != 0 and "Traceback" not in ended.stderr
    assert "pre-trained-1" in ended.stderr


@dataclass
class FromCluster:
    """A comparison whose one run a cluster made: its Federation, and its bucket."""

    wanted: CheckedComparison
    objects: dict[str, Any]
    store: ObjectStore

    def collect(self, store: ObjectStore) -> tuple[list[tuple[Run, RunResult]], dict[str, str]]:
        return cluster.collect(self.wanted, self.wanted.runs, self.objects, lambda _: store)


@pytest.fixture
def from_cluster(undisturbed: Path, tmp_path: Path) -> Iterator[FromCluster]:
    place = {"s3": {"bucket": "hansa"}}
    small.write_manifest(tmp_path, storage=place)
    own = {part: small.SPEC[part] for part in ("aggregation", "experience", "exploration")}
    same = {"name": "same", "spec": own}
    fields = {"federation": "federation.yaml", "seeds": [7], "methods": ["pre-trained", same]}
    (tmp_path / "compare.yaml").write_text(json.dumps(fields))
    wanted = comparison.read(tmp_path / "compare.yaml", here=False)
    folder = RunDir(undisturbed)
    ended = folder.load()
    document = {**ended.to_json(), "metadata": {"name": "small-same-7"}}
    document["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    document["spec"] = {**document["spec"], "storage": {"s3": {**place["s3"], "prefix": "small"}}}

    with open_store(ended, folder) as store:
        yield FromCluster(wanted, {"small-same-7": document}, store)


def test_a_run_that_a_cluster_made_is_read_from_its_bucket(
    undisturbed: Path, from_cluster: FromCluster
) -> None:
    found, missing = from_cluster.collect(from_cluster.store)
    assert missing == {}
    wanted = from_cluster.wanted
    base, known = wanted.runs[0], [result for _, result in found if result.final]
    later, missing = cluster.collect(wanted, [base], {}, pytest.fail, known)
    assert missing == {} and later == [pair for pair in found if pair[0] is base]
    results = {run.method: result for run, result in found}
    assert results["same"].final == 2 and results["same"].communication.up > 0
    rates = {(row.round, row.environment): row.success for row in results["same"].rows}
    for entry in small.status(undisturbed)["history"]:
        for name, rate in entry["success"].items():
            assert rates[entry["round"], name] == pytest.approx(rate)
    assert [(row.round, row.success) for row in results["pre-trained"].rows] == [
        (0, rates[0, name]) for name in small.ENVIRONMENTS
    ]


UPDATE = "small/updates/maze/00001/manifest.json"
EVALUATION = "small/evaluations/maze/00001.json"


@pytest.mark.parametrize(
    ("key", "changes", "sentence"),
    [
        (UPDATE, b"", "got no UpdateManifest that this version can read"),
        (UPDATE, b" " * (4 * 2**20 + 1), "got more than 4194304 bytes, expected no more"),
        (UPDATE, {"environment": "webshop"}, "environment: got 'webshop', expected 'maze'"),
        (EVALUATION, b"[]", "got no EvaluationDocument that this version can read"),
        (EVALUATION, {"environment": "x"}, "environment: got 'x', expected 'maze'"),
        (EVALUATION, {"successes": 9**9}, "got no EvaluationDocument"),
        (EVALUATION, {"worth": -1.0}, "got no EvaluationDocument"),
    ],
)
def test_what_a_silo_garbled_is_named_and_the_run_left_out(
    from_cluster: FromCluster, key: str, changes: Any, sentence: str
) -> None:
    data = changes
    if isinstance(changes, dict):
        data = json.dumps({**json.loads(from_cluster.store.get(key)), **changes}).encode()
    found, missing = from_cluster.collect(Replaced(from_cluster.store, key, data))
    assert found == []
    assert sentence in missing["same-7"] and key in missing["same-7"]


def test_a_store_that_dies_while_adapters_are_scored_comes_back(tmp_path: Path) -> None:
    wanted = comparison.read(write_comparison(tmp_path, methods=["pre-trained"], seeds=[1]))
    folder = RunDir(tmp_path / "run")
    folder.prepare()
    spec = use_embedded(wanted.runs[0].federation)
    with folder.lock(), open_embedded(folder, spec) as store:
        first = store.pid
        assert first
        kill(first)
        until(lambda: not store.alive(), "the store to die")
        found = scoring.score(wanted.runs[0], folder, store, {}, None)
        assert store.pid not in (None, first)
    assert sum_tallies(found[scoring.BASE].tasks).episodes == 4 * len(small.ENVIRONMENTS)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of silos with the names that scoring uses, one of which is left out once."""
    folder = tmp_path_factory.mktemp("scored")
    silos = [{**e, "name": n} for e, n in zip(small.SPEC["environments"], NAMES, strict=True)]
    methods = ["pre-trained", "local-evolution", {"name": "unseen", "without": NAMES[1:]}]
    spec = {"environments": silos}
    file = write_comparison(folder, methods=methods, seeds=[1], spec=spec, reference="pre-trained")
    with Compare(file, folder / "out", "--keep-runs") as run:
        run.finish()
    return folder / "out"


def rows(out: Path, method: str) -> list[tuple[str, str, int]]:
    found = json.loads((out / "compare.json").read_text())["rows"]
    mine = [row for row in found if row["method"] == method]
    assert {row["tasks"] for row in mine} == {4}
    return sorted((row["of"], row["environment"], row["round"]) for row in mine)


def test_silos_may_have_the_names_that_scoring_uses(scored: Path) -> None:
    assert rows(scored, "pre-trained") == [("", name, 0) for name in NAMES]
    alone = [row for row in rows(scored, "local-evolution") if row[2]]
    assert alone == [(whose, where, 1) for whose in NAMES for where in NAMES]


def test_a_world_that_took_no_part_is_scored_with_what_the_others_made(scored: Path) -> None:
    seen, unseen = NAMES
    assert rows(scored, "unseen") == [("", seen, 0), ("", seen, 1), ("", unseen, 1)]
    federation = RunDir(scored / "runs/unseen-1").load()
    assert [environment.name for environment in federation.spec.environments] == [seen]
    table = json.loads((scored / "compare.json").read_text())["table"]
    assert [line["name"] for line in table if line["shares"] == "adapters"] == ["unseen"]
