"""Noise drawn ahead: other processes draw the same numbers, in the same order."""

import numpy as np
import pytest

from hansa_client.privacy import Stream
from hansa_client.training import noise

STREAM = Stream(b"k" * 32, "training")
SIZES = {f"layer.{number}": 5 * number + 1 for number in range(9)}


@pytest.mark.parametrize("count", [1, 2, 4, 100])
def test_every_weight_is_drawn_by_one_process_in_its_order(count: int) -> None:
    parts = noise.split_weights(SIZES, count)
    assert [name for part in parts for name in part] == list(SIZES)
    assert 1 <= len(parts) <= count
    assert max(sum(part.values()) for part in parts) <= sum(SIZES.values()) / count + 41


def test_noise_drawn_ahead_is_that_of_each_step_and_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_PROCESSES", 2)
    into = np.zeros(sum(SIZES.values()))
    with noise.draw_ahead(STREAM, SIZES, 3) as coming:
        for step in range(3):
            coming.read(into)
            own = [STREAM.draw_normals(f"noise/{step}/{name}", SIZES[name]) for name in SIZES]
            assert into.tobytes() == np.concatenate(own).tobytes()
        with pytest.raises(RuntimeError, match="has ended before its last step"):
            coming.read(into)


def test_processes_end_where_not_all_of_their_noise_is_read() -> None:
    with noise.draw_ahead(STREAM, {"a": 200_000, "b": 200_000}, 50) as coming:
        coming.read(np.zeros(400_000))
