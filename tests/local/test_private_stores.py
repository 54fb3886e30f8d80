"""`hansa run --embedded-store` with privacy or masks: a private bucket for each silo."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.api.privacy import Privacy
from hansa.core.errors import Denied
from hansa.local.loop import open_embedded, open_experience, use_embedded
from hansa.local.rundir import RunDir
from hansa.store.access_grants import AGGREGATOR
from tests.support import small
from tests.support.builders import make_federation
from tests.support.processes import PATIENCE_SECONDS
from tests.support.sources import ROOT

SHORTER = {
    "rounds: 2": "rounds: 1",
    "tasksPerRound: 24": "tasksPerRound: 4",
    "demonstrations: 60": "demonstrations: 8",
    "tasks: 20": "tasks: 4",
    "validationTasks: 20": "validationTasks: 4",
    "maxSteps: 24": "maxSteps: 2",
    "maxSteps: 10": "maxSteps: 2",
}


def test_only_what_needs_them_has_private_buckets() -> None:
    plain = make_federation("maze", "wordle")
    spec = plain.spec.model_copy(update={"privacy": Privacy(epsilon=8, delta=1e-4)})
    private = plain.model_copy(update={"spec": spec})
    assert [e.experience_storage for e in use_embedded(plain).environments] == [None, None]
    stores = [e.experience_storage for e in use_embedded(private).environments]
    assert [each and each.s3.bucket for each in stores] == ["hansa-maze", "hansa-wordle"]


@pytest.mark.slow
@pytest.mark.parametrize("example", ["14-privacy", "15-secure-aggregation"])
def test_the_example_runs_as_its_page_says_and_nobody_else_reads_a_private_bucket(
    tmp_path: Path, example: str
) -> None:
    folder = tmp_path / "examples" / example
    folder.mkdir(parents=True)
    text = (ROOT / "examples" / example / "federation.yaml").read_text()
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    (folder / "federation.yaml").write_text(text)
    page = (ROOT / "examples" / example / "README.md").read_text()
    [typed] = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    hansa = f'hansa() {{ "{sys.executable}" -m hansa.cli.main "$@"; }}'
    done = subprocess.run(
        ["bash", "-ec", f"{hansa}\n{typed}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = (tmp_path / "runs").iterdir()
    check_buckets(RunDir(run))
    listed = small.hansa("trajectories", run, "--success")
    assert listed.returncode == 0 and "maze" in listed.stdout, listed.stdout + listed.stderr


def check_buckets(folder: RunDir) -> None:
    federation = folder.load()
    spec = use_embedded(federation)
    with open_embedded(folder, spec) as store:
        exchange = store.store()
        assert not [key for key in exchange.list("") if "/experience/" in key]
        for name in [environment.name for environment in spec.environments]:
            root = bucket_keys.experience_root("", name)
            own = open_experience(spec, name, exchange)
            assert len(list(own.list(root))) >= 2, "the demonstrations and a round"
            others = [each.name for each in spec.environments if each.name != name]
            assert list(store.store(name).open_private(name).list(root))
            for other in (AGGREGATOR, *others):
                with pytest.raises(Denied):
                    store.store(other).open_private(name).list(root)
