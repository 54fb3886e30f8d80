"""A comparison whose runs are Federations of a real cluster."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cluster.installed import BUCKET, NAMESPACE, RELEASE, Hansa
from tests.cluster.kube import ROOT
from tests.support.small import hansa as run_hansa
from tests.support.small import write_manifest

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(1800)]

SECRET = "comparison"
_, _, PAGE = (ROOT / "docs/compare.md").read_text().partition("## On a cluster")
METHODS = ["pre-trained", "fed-se", "local-evolution", "centralized-evolution"]


@pytest.fixture
def file(hansa: Hansa, tmp_path: Path) -> Path:
    """A comparison of one round, in which everybody has the keys of the bucket's owner."""
    root = hansa.secret(f"{RELEASE}-minio-root")
    values = {
        "AWS_ACCESS_KEY_ID": root["MINIO_ROOT_USER"],
        "AWS_SECRET_ACCESS_KEY": root["MINIO_ROOT_PASSWORD"],
    }
    hansa.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": NAMESPACE},
            "stringData": values,
        }
    )
    (tmp_path / "credentials.json").write_text(json.dumps({"default": values}))
    place = {
        "endpoint": f"http://{RELEASE}-minio.{NAMESPACE}.svc:9000",
        "bucket": BUCKET,
        "prefix": "compared",
        "credentialsSecret": {"name": SECRET},
    }
    write_manifest(tmp_path, rounds=1, storage={"s3": place})
    path = tmp_path / "compare.yaml"
    path.write_text(json.dumps({"federation": "federation.yaml", "seeds": [7], "methods": METHODS}))
    return path


def test_a_comparison_on_the_cluster_has_the_figures_of_one_on_this_machine(
    hansa: Hansa, file: Path, tmp_path: Path
) -> None:
    make, look, collect = (
        shlex.split(line.replace("compare.yaml", str(file)).replace("NAME", "small"))
        for line in re.findall(r"^\$ (.*)$", PAGE, flags=re.MULTILINE)
    )
    kubeconfig = hansa.cluster.script("kubeconfig").stdout.strip()
    there: list[str | Path] = ["--kubeconfig", kubeconfig, "-n", NAMESPACE]
    there += ["--credentials", tmp_path / "credentials.json", "--out", tmp_path / "there"]
    collect = [hansa.endpoint if word.startswith("http") else word for word in collect[1:]]
    place = make.index("|")
    made = run_hansa(*make[1:place])
    assert made.returncode == 0, made.stderr
    consents = [line for line in made.stderr.splitlines() if line.startswith("  kubectl ")]
    assert [SECRET in line for line in consents] == [True]
    given = hansa.cluster.kubectl(*shlex.split(consents[0])[1:])
    assert given.returncode == 0, given.stderr
    applied = hansa.cluster.kubectl(*make[place + 2 :], stdin=made.stdout)
    assert applied.returncode == 0, applied.stderr
    assert len(hansa.cluster.kubectl(*look[1:], "-o", "name").stdout.split()) == 3
    early = run_hansa(*collect, *there)
    assert early.returncode == 2 and "no result of this comparison yet" in early.stderr
    for method in METHODS[1:]:
        hansa.finish(f"small-{method}-7")
    done = run_hansa(*collect, "-o", "json", *there)
    assert done.returncode == 0, done.stderr

    here = run_hansa("compare", file, "--out", tmp_path / "here", "-o", "json")
    assert here.returncode == 0, here.stderr
    assert at_home(done.stdout) == at_home(here.stdout)
    hansa.cluster.kubectl("delete", "hfed", "-l", "hansa.dev/comparison=small")


def at_home(printed: str) -> list[dict[str, object]]:
    """Rows of adapters in their own world: elsewhere only one machine can score them."""
    rows: list[dict[str, object]] = json.loads(printed)["rows"]
    return [row for row in rows if row.get("of") in (None, "", row["environment"])]
