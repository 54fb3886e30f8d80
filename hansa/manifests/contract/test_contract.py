"""The one test that there is, once for each check of each plug-in."""

from collections.abc import Callable


def test_it_keeps_the_contract(contract_check: Callable[[], None]) -> None:
    """A check raises an error with what is wrong."""
    contract_check()
