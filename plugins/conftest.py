"""Fixtures that tests of plug-ins share with those of Hansa."""

from tests.conftest import bytecode_is_kept, no_credentials_of_this_machine, signals_are_heard

__all__ = ["bytecode_is_kept", "no_credentials_of_this_machine", "signals_are_heard"]
