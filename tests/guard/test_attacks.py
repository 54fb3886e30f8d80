"""docs/attacks.md is made from the tests' markers, and every test of tests/attack has one."""

from pathlib import Path

import pytest

from tests.support.sources import ROOT
from tools import attacks

TEST = """
class TestGate:
    @pytest.mark.attack(by="a silo", does="sends `a|b` and\\n<b>", result="refused")
    @pytest.mark.parametrize("how", [1, 2])
    def test_first(how): ...

@pytest.mark.attack(by="a silo", does="sends `a|b` and <b>", result="refused")
async def test_second(): ...

def test_third(): ...
"""


def write_tests(folder: Path, text: str = TEST) -> Path:
    (folder / "tests").mkdir()
    (folder / "tests/test_gate.py").write_text(text)
    return folder


def test_the_page_is_what_the_markers_say(capsys: pytest.CaptureFixture[str]) -> None:
    code = attacks.main(["--check"])
    assert code == 0, capsys.readouterr().out


def test_every_test_of_an_attack_has_its_marker() -> None:
    files = sorted((ROOT / "tests/attack").rglob("test_*.py"))
    tests = [each for file in files for each in attacks.read_tests(file, ROOT)]
    silent = [test for test, found in tests if not found]
    assert len(tests) > 15
    assert silent == []


def test_tests_with_the_same_words_share_a_row(tmp_path: Path) -> None:
    page = attacks.render_page(attacks.read_attacks(write_tests(tmp_path)))
    both = "`tests/test_gate.py::TestGate::test_first`, `tests/test_gate.py::test_second`"
    # in one line, with the bar of the cell and the mark of a tag escaped
    separate = page.count("| sends `a\\|b` and \\<b> | refused |")
    assert separate == 1 and both in page


@pytest.mark.parametrize(
    "marker, expected",
    [
        ('by="a stranger", does="x", result="y"', "by='a stranger', expected one of a silo, "),
        ('by="a silo", does="x"', "expected three texts: by, does, result"),
        ('by="a silo", does="x", result=REFUSED', "expected three texts"),
        ('"a silo", does="x", result="y"', "expected three texts"),
    ],
    ids=["nobody of the list", "one missing", "a name", "by position"],
)
def test_a_malformed_marker_is_refused(tmp_path: Path, marker: str, expected: str) -> None:
    text = f"@pytest.mark.attack({marker})\ndef test_it(): ...\n"
    with pytest.raises(ValueError, match=f"tests/test_gate.py::test_it: .*{expected}"):
        attacks.read_attacks(write_tests(tmp_path, text))


def test_a_stale_page_is_named_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attacks, "PAGE", tmp_path / "attacks.md")
    assert attacks.main(["--check"]) == 1
    assert capsys.readouterr().out == "stale: docs/attacks.md; run tools/python tools/attacks.py\n"
    assert attacks.main([]) == 0
    assert attacks.main(["--check"]) == 0
