"""The terminal of the tests wraps, scrolls and erases as real ones do."""

from tests.support.terminal import Terminal


def test_lines_are_wrapped_anew_and_come_back_whole() -> None:
    terminal = Terminal(10, 5)
    terminal.feed("0123456789ab\nsecond")
    assert terminal.visible == ["0123456789", "ab", "second"]
    terminal.resize(4, 5)
    assert terminal.visible == ["0123", "4567", "89ab", "seco", "nd"]
    terminal.resize(20, 5)
    assert terminal.visible == ["0123456789ab", "second"]


def test_the_cursor_goes_up_by_rows_and_not_beyond_the_screen() -> None:
    terminal = Terminal(10, 2)
    terminal.feed("one\ntwo\nthree\x1b[5A\r\x1b[2Kx")
    assert terminal.visible == ["x", "three"]
    terminal.resize(10, 3)
    assert terminal.visible == ["one", "x", "three"], "what had scrolled away comes back"


def test_a_row_that_was_wrapped_stays_when_the_other_one_is_erased() -> None:
    terminal = Terminal(10, 5)
    terminal.feed("0123456789")
    terminal.resize(5, 5)
    terminal.feed("\r\x1b[2Kx")
    assert terminal.visible[0] == "01234"


def test_a_cleared_screen_is_written_from_its_top() -> None:
    terminal = Terminal(10, 2)
    terminal.feed("one\ntwo\nthree\x1b[2J\x1b[Hnew")
    assert terminal.visible == ["new", ""]
