"""Consoles in documents: read, typed again, compared and renewed."""

from pathlib import Path

import pytest

from tools import console

PAGE = """Text
```console
$ one
a
...
z
$ two
old
```
```sh
$ never
```
"""


def run(command: str) -> list[str]:
    return {"one": ["a", "b", "c", "z"], "two": ["new", "", "lines"]}[command]


def test_what_is_still_true_stays_and_the_rest_is_renewed() -> None:
    now = console.renewed(PAGE, run)
    assert now == PAGE.replace("old\n", "new\n\nlines\n")
    assert console.renewed(now, run) == now


@pytest.mark.parametrize(
    "shown, same",
    [
        (["a", "z"], True),
        (["a", "..."], True),
        (["..."], True),
        (["a", "...", "z"], True),
        (["a"], False),
        (["a", "z", "more"], False),
        (["...", "a"], False),
    ],
)
def test_three_dots_stand_for_any_lines(shown: list[str], same: bool) -> None:
    assert console.is_same(shown, ["a", "z"]) is same


def test_a_command_is_typed_in_its_folder_and_must_succeed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert console.typed_in("ls; printf 'y  \\n\\n'; echo talk >&2", tmp_path) == ["file", "y"]
    with pytest.raises(SystemExit, match="ended with 3"):
        console.typed_in("exit 3", tmp_path)
