"""The builtin model, its start adapter and small assignments, as in the client's own tests."""

from tests.unit.hansa_client.conftest import assign, base, start

__all__ = ["assign", "base", "start"]
