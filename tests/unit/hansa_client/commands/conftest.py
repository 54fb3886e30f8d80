"""Fixtures of the commands' tests."""

from tests.unit.hansa_client.commands.program import steering as steering
