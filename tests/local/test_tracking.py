"""`spec.tracking` in `hansa run`: the tracker gets every round, and disturbs none of them."""

import socket
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests import small

pytestmark = pytest.mark.slow


def test_a_run_that_was_killed_still_fills_its_board_and_a_tracker_changes_no_byte(
    tmp_path: Path, in_one_place: Path
) -> None:
    manifest = small.write_manifest(tmp_path, rounds=1, tracking={"to": "tensorboard"})
    out = tmp_path / "run"
    with small.Run(manifest, out) as run:
        run.wait_for_phase("explore")
        run.kill()
    with small.Run(manifest, out) as run:
        run.finish()
    assert small.adapter(out) == small.adapter(in_one_place / "run")
    [folder] = (out / "tracked").iterdir()
    for silo in small.ENVIRONMENTS:
        reader = EventAccumulator(str(folder / silo))
        reader.Reload()
        history = small.status(out)["history"]
        wanted = [(entry["round"], entry["success"][silo]) for entry in history]
        assert [(p.step, pytest.approx(p.value)) for p in reader.Scalars("success")] == wanted
    shown = small.hansa("status", "--out", out)
    assert "Tracked: Exported: tensorboard has the figures up to round 1" in shown.stdout
    again = small.hansa("export", str(out), "--to", "tensorboard", "--out", str(out / "tracked"))
    assert again.returncode == 0
    assert list((out / "tracked").iterdir()) == [folder]  # the same run by both ways
    assert "track-a" in small.hansa("logs", "--out", out).stdout


def test_a_tracker_that_is_away_is_said_and_changes_no_byte(
    tmp_path: Path, in_one_place: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"  # bound, and nobody listens
        tracking = {"to": "mlflow", "url": url}
        out = tmp_path / "run"
        with small.Run(small.write_manifest(tmp_path, rounds=1, tracking=tracking), out) as run:
            run.finish()
            assert f"TrackingFailed tracker: spec.tracking.url: got {url}" in run.events
    assert small.adapter(out) == small.adapter(in_one_place / "run")
    held = {c["type"]: c for c in small.status(out)["conditions"]}
    assert held["Tracked"]["reason"] == "TrackerFailed"
    assert held["Degraded"]["status"] == "False"
