"""Whose a connection over loopback is, by the tables of Linux."""

import os
import re
import socket
import sys
from pathlib import Path

import pytest

from hansa_client.serving import local_users
from hansa_client.serving.local_users import is_of_another_user

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these tables")
FAMILIES = [
    (socket.AF_INET, "127.0.0.1", socket.AF_INET, "127.0.0.1"),
    (socket.AF_INET, "127.0.0.1", socket.AF_INET6, "::ffff:127.0.0.1"),
    (socket.AF_INET6, "::1", socket.AF_INET6, "::1"),
]


@pytest.fixture(params=FAMILIES, ids=["IPv4", "IPv4 from an IPv6 socket", "IPv6"])
def ends(request: pytest.FixtureRequest):
    """Both ends of a connection: the client's and the server's."""
    family, address, client_family, client_address = request.param
    with socket.socket(family) as listener, socket.socket(client_family) as client:
        try:
            listener.bind((address, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        listener.listen()
        client.connect((client_address, listener.getsockname()[1]))
        server, _ = listener.accept()
        with server:
            yield client, server


def test_a_connection_of_the_same_user_is_its_own_until_it_is_closed(ends) -> None:
    client, server = ends
    assert not is_of_another_user(server)
    client.shutdown(socket.SHUT_WR)
    assert not is_of_another_user(server), "it still waits for the answer"
    client.close()
    assert is_of_another_user(server), "nobody waits for an answer"


def test_a_connection_that_the_system_gives_to_another_user_is_refused(
    ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = []
    for table in local_users._TABLES:
        rows = re.sub(rf"( +){os.getuid()}( +0 +)", r"\g<1>4711\2", table.read_text())
        tables.append(tmp_path / table.name)
        tables[-1].write_text(rows)
    monkeypatch.setattr(local_users, "_TABLES", tuple(tables))
    assert is_of_another_user(ends[1])
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert not is_of_another_user(ends[1])


def test_where_the_system_does_not_tell_nobody_is_refused(
    ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_users, "_TABLES", (tmp_path / "tcp", tmp_path / "tcp6"))
    assert not is_of_another_user(ends[1])
