"""The contract suites as a plug-in of pytest: what strategies, learners and worlds must keep.

    suite=hansa.manifests.contract
    pytest -p $suite --pyargs $suite --strategy midrange --learner first-success
    pytest -p $suite --pyargs $suite --world 'tickets={"prompt": "brief"}'

Builtin names work, too. The suites themselves are with the interfaces that they check, in
`hansa_server.contract`, `hansa_client.contract` and `hansa_worlds.contract`; pytest is imported
here alone.
"""

import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import pytest

SUITES = {
    "strategy": ("hansa_server.contract", "prepare_settings"),
    "learner": ("hansa_client.contract", "make_training"),
    "world": ("hansa_worlds.contract", "prepare_world"),
}
"""Module with the checks of each kind, and its function that makes what they take."""
CHECK = "contract_check"
"""Argument of the one test that there is."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """One option for each kind; each may be given several times."""
    group = parser.getgroup("hansa", "contract suites of Hansa")
    for kind in SUITES:
        group.addoption(
            f"--{kind}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"Check the {kind} of this name; with options as NAME={{JSON}}.",
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each check of each plug-in that was asked for."""
    if CHECK not in metafunc.fixturenames:
        return
    made = {
        f"{kind} {text.partition('=')[0]}: {title}": check
        for kind in SUITES
        for text in metafunc.config.getoption(f"--{kind}")
        for title, check in prepare_checks(kind, text).items()
    }
    if not made:
        asked = ", ".join(f"--{kind} NAME" for kind in SUITES)
        raise pytest.UsageError(f"got nothing to check, expected one of {asked}")
    metafunc.parametrize(CHECK, made.values(), ids=made.keys())


def prepare_checks(kind: str, text: str) -> dict[str, Callable[[], None]]:
    """The checks of one plug-in by their sentences, ready to be called."""
    name, equals, options = text.partition("=")
    module, prepare = SUITES[kind]
    suite: Any = import_module(module)
    try:
        subject = getattr(suite, prepare)(name, json.loads(options) if equals else None)
    except Exception as error:  # a sentence of ours, or whatever a package raises
        raise pytest.UsageError(f"--{kind} {text}: {error}") from error
    return {title: partial(check, subject) for title, check in suite.CHECKS.items()}
