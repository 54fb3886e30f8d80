"""`hansa export NAME` on a real apiserver: the status of a federation, until it is over."""

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.cluster.cli import NAME, Typist, manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_federation_is_followed_to_its_end(typist: Typist, tmp_path: Path) -> None:
    assert typist.apply(manifest()).code == 0
    typist.finish()
    words = ("export", NAME, "--to", "tensorboard", "--out", str(tmp_path / "board"), "--follow")
    done = typist.hansa(*words)
    assert done.code == 0, done.err
    [parent] = (tmp_path / "board").iterdir()
    uid = typist.get()["metadata"]["uid"]
    assert parent.name == f"{NAME}-{uid[:8]}"
    reader = EventAccumulator(str(parent / "maze"))
    reader.Reload()
    history = typist.get()["status"]["history"]
    wanted = [(entry["round"], entry["success"]["maze"]) for entry in history]
    assert [(p.step, pytest.approx(p.value)) for p in reader.Scalars("success")] == wanted
