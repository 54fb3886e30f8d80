"""TensorBoard's own reader finds each figure once, whatever happened to the writer."""

import struct
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from hansa.api.status import Federation
from hansa.core.errors import InputError
from hansa.report import tracking_figures
from hansa.tracking.base import Destination, open_tracker
from tests.support.tracked import IDENTITY, SECRET, WORDS, Figures, expected, make_tracked


def export(federation: Federation, out: Path) -> None:
    tracker = open_tracker("tensorboard", Destination(out=out))
    tracker.write(tracking_figures.build_record(federation, IDENTITY, is_over=True))


def read(out: Path) -> dict[str, list[tuple[str, int, float]]]:
    """All points by silo, as TensorBoard reads them."""
    [parent] = out.iterdir()
    runs = {"": parent, **{path.name: path for path in parent.iterdir() if path.is_dir()}}
    return {name: points(path) for name, path in runs.items()}


def points(folder: Path) -> list[tuple[str, int, float]]:
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    tags = reader.Tags()["scalars"]
    return sorted((tag, p.step, p.value) for tag in tags for p in reader.Scalars(tag))


def narrow(runs: dict[str, Figures]) -> dict[str, list[tuple[str, int, float]]]:
    """Figures as the format holds them, in 32 bits."""
    return {
        name: sorted(
            (m, s, struct.unpack("<f", struct.pack("<f", v))[0]) for (m, s), v in p.items()
        )
        for name, p in runs.items()
    }


def test_what_tensorboard_reads_is_the_status(tmp_path: Path) -> None:
    federation = make_tracked()
    export(federation, tmp_path)
    assert read(tmp_path) == narrow(expected(federation))


def test_the_settings_are_a_text_and_no_sentence_of_an_episode_is_there(tmp_path: Path) -> None:
    export(make_tracked(), tmp_path)
    [parent] = tmp_path.iterdir()
    reader = EventAccumulator(str(parent / "maze"))
    reader.Reload()
    [text] = reader.Tensors("settings")
    assert "| options.size | 6 |" in text.tensor_proto.string_val[0].decode()
    assert reader.SummaryMetadata("settings").plugin_data.plugin_name == "text"
    for file in tmp_path.rglob("events*"):
        assert WORDS.encode() not in file.read_bytes()
        assert SECRET.encode() not in file.read_bytes()


def test_exported_twice_the_files_have_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        export(make_tracked(), tmp_path)
        contents.append({file: file.read_bytes() for file in tmp_path.rglob("events*")})
    assert contents[0] == contents[1]


def test_a_longer_run_is_appended_to_what_is_there(tmp_path: Path) -> None:
    export(make_tracked(rounds=2), tmp_path)
    [parent] = tmp_path.iterdir()
    file = next((parent / "maze").iterdir())
    before = file.read_bytes()
    longer = make_tracked(rounds=3)
    longer = longer.model_copy(update={"spec": make_tracked(rounds=2).spec})
    export(longer, tmp_path)
    assert file.read_bytes().startswith(before)
    assert ("success", 3) in {(tag, step) for tag, step, _ in points(parent / "maze")}


def test_a_writer_killed_at_any_byte_is_completed_by_the_next_one(tmp_path: Path) -> None:
    federation = make_tracked()
    export(federation, tmp_path)
    [parent] = tmp_path.iterdir()
    file = next((parent / "maze").iterdir())
    whole = file.read_bytes()
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        export(federation, tmp_path)
        assert file.read_bytes() == whole


def test_a_figure_that_changed_is_there_once(tmp_path: Path) -> None:
    federation = make_tracked()
    export(federation, tmp_path)
    last = federation.status.history[-1]
    changed = last.model_copy(update={"success": {"maze": 0.75, "wordle": 0.3}})
    history = [*federation.status.history[:-1], changed]
    status = federation.status.model_copy(update={"history": history})
    newer = federation.model_copy(update={"status": status})
    export(newer, tmp_path)
    assert read(tmp_path) == narrow(expected(newer))


@pytest.mark.parametrize(
    "destination, sentence",
    [
        (Destination(), "--out: got nothing, expected a folder for TensorBoard's files"),
        (Destination(url="http://x"), "--url: got http://x, but this tracker takes no --url"),
    ],
)
def test_a_destination_that_does_not_fit_is_refused(
    destination: Destination, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        open_tracker("tensorboard", destination)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"--out: got .*: Not a directory"):
        export(make_tracked(), tmp_path / "file")
