"""`hansa run` with other settings than before: what changed is said, used and kept, or refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.bucket_documents import UpdateManifest
from hansa.local.objectstore import LocalStore
from tests.support import small
from tests.support.small import hansa

pytestmark = pytest.mark.slow

MORE_EPOCHS = {"training": {**small.SPEC["training"], "epochs": 2}}
CHANGE = "spec.training.epochs: 1 -> 2"


def epochs(out: Path) -> dict[int, int]:
    """What each round's update was trained with, by its manifest in the store."""
    with LocalStore(out / "store", small.ENVIRONMENTS, prefix=small.NAME) as weed:
        store = weed.store()
        made: dict[int, int] = {}
        for key in store.list(bucket_keys.update_root(small.NAME, "maze")):
            if key.endswith(bucket_keys.MANIFEST):
                inputs = UpdateManifest.model_validate_json(store.get(key)).inputs
                made[inputs["round"]] = inputs["training"]["epochs"]
    return made


def test_other_settings_of_a_finished_run_are_refused_and_nothing_is_lost(
    undisturbed: Path, tmp_path: Path
) -> None:
    before = {p: p.stat().st_mtime_ns for p in undisturbed.rglob("*") if p.name != "lock"}
    refused = hansa("run", small.write_manifest(tmp_path, **MORE_EPOCHS), "--out", undisturbed)
    assert refused.returncode == 2
    assert "error: spec.training.epochs: got 2, expected 1 (the run is finished" in refused.stderr
    assert "\n\nhint: raise spec.rounds" in refused.stderr
    assert "success on held-out tasks" not in refused.stderr, "the old result is not its answer"
    after = {p: p.stat().st_mtime_ns for p in undisturbed.rglob("*") if p.name != "lock"}
    assert after == before


def test_a_killed_run_goes_on_with_other_settings_from_the_next_round(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with small.Run(small.write_manifest(tmp_path), out) as run:
        run.wait_for_phase("explore")
        run.kill()
    run = small.finish(small.write_manifest(tmp_path, **MORE_EPOCHS), out)
    assert f"from round 2 on: {CHANGE}" in run.said
    assert f"warning SettingsChanged from round 2 on: {CHANGE}" in run.events
    assert epochs(out) == {1: 1, 2: 2}


def test_a_finished_run_that_grows_says_what_else_changed(
    undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out)
    changes: dict[str, Any] = {"rounds": 3, **MORE_EPOCHS}
    run = small.finish(small.write_manifest(tmp_path, **changes), out)
    assert f"from round 3 on: {CHANGE}" in run.said
    assert "from round 3 on: spec.rounds: 2 -> 3" in run.events
    assert epochs(out) == {1: 1, 2: 1, 3: 2}
    assert json.loads((out / "federation.json").read_text())["spec"]["training"]["epochs"] == 2
