"""The one test that there is, once for each check of each plug-in."""

from collections.abc import Callable


def test_it_keeps_the_contract(contract_check: Callable[[], None]) -> None:
    """A check raises BrokenContract with what it saw."""
    contract_check()
