"""What a comparison says of a run that has failed."""

from pathlib import Path
from types import SimpleNamespace

from hansa.compare.drive import _Worker


def test_a_problem_is_a_sentence_and_no_whole_log_line(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    worker = SimpleNamespace(process=SimpleNamespace(returncode=1), log=log)
    log.write_text("12:00:00 error stopped - no disk\n")
    assert _Worker.problem(worker) == "no disk"  # type: ignore[arg-type]
    log.write_text("x" * 20_000)
    assert _Worker.problem(worker) == "x" * 1_000  # type: ignore[arg-type]
    log.write_text("")
    assert _Worker.problem(worker) == "ended with 1"  # type: ignore[arg-type]
