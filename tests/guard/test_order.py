"""The longest files of tests are begun with, so that no worker waits for the other at the end."""

from pathlib import Path

import pytest

from tests.conftest import LONGEST_FIRST, pytest_collection_modifyitems

ROOT = Path(__file__).parents[2]


class Item:
    """What the order looks at."""

    def __init__(self, file: str) -> None:
        self.path = ROOT / file
        self.name = file


@pytest.mark.parametrize("file", LONGEST_FIRST)
def test_a_file_that_is_begun_with_is_there(file: str) -> None:
    assert (ROOT / file).is_file()


def test_long_files_come_first_and_the_rest_stay_as_they_were() -> None:
    long = LONGEST_FIRST[:2]
    items = [Item(file) for file in ("tests/b.py", long[1], "tests/a.py", long[0], long[1])]
    pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    assert [item.name for item in items] == [long[0], long[1], long[1], "tests/b.py", "tests/a.py"]
