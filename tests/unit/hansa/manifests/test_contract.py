"""The contract suites by name: each kind has its checks, and says who is not there."""

from importlib import import_module

import pytest

from hansa.manifests import contract

BUILTIN = {"strategy": "mean", "learner": "success-sft", "world": 'maze={"size": 5}'}


@pytest.mark.parametrize("kind", contract.SUITES)
def test_a_builtin_name_has_every_check_of_its_kind(kind: str) -> None:
    suite = import_module(contract.SUITES[kind])
    assert list(contract.prepare_checks(kind, BUILTIN[kind])) == list(suite.CHECKS)


@pytest.mark.parametrize("kind", contract.SUITES)
def test_a_name_that_nobody_has_is_refused_with_the_option(kind: str) -> None:
    with pytest.raises(pytest.UsageError, match=f"--{kind} nobody: .*got 'nobody'"):
        contract.prepare_checks(kind, "nobody")


def test_a_prepared_check_runs_over_the_plug_in() -> None:
    contract.prepare_checks("world", "maze")["splits are disjoint"]()
