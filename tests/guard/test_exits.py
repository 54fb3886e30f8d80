"""Every way to stop has its facts, and every error that ends a program has a way to stop."""

from hansa.core import errors, exits


def test_every_exit_has_facts_and_a_sentence_of_help() -> None:
    assert set(exits.FACTS) == set(exits.Exit)
    assert all(facts.help and "\n" not in facts.help for facts in exits.FACTS.values())


def test_every_error_ends_with_a_known_exit() -> None:
    kinds = [errors.HansaError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
        assert kind.exit in exits.FACTS
        assert kind.exit is not exits.Exit.DONE


def test_an_unknown_exit_code_is_a_crash_worth_another_try() -> None:
    assert exits.get_facts(137).retriable
    assert exits.get_facts(None).retriable
