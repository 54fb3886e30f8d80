"""Commands of `hansa` in this very process: a process for each would import all of it again."""

import pytest

from hansa.cli.main import main


def hansa(*arguments: object) -> int:
    """The exit code of `hansa` with these arguments."""
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code of `hansa`, and what it printed on both streams."""
    code = hansa(*arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err
