"""A block of ports has one owner, and no two blocks have a port in common."""

import socket
import subprocess
import sys

import pytest

from hansa.core.errors import Unreachable
from hansa.local import ports
from hansa.local.ports import Block, claim_ports, reclaim_ports

HOLDER = """
import sys
from hansa.local.ports import claim_ports
block = claim_ports()
print(block.ports["master.port"], flush=True)
sys.stdin.read()
"""


def test_no_two_blocks_have_a_port_in_common() -> None:
    taken: set[int] = set()
    with socket.socket() as nobodys:
        for first in ports._FIRSTS:
            own = {*Block(first, nobodys).every.values(), first + ports._SIZE - 1}
            assert not own & taken
            taken |= own
    assert max(taken) < 32_768  # where outgoing connections begin


def test_a_block_is_given_to_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    block = claim_ports()
    first = block.ports["master.port"]
    monkeypatch.setattr(ports, "_FIRSTS", range(first, first + ports._SIZE, ports._SIZE))
    with pytest.raises(Unreachable, match="found no 10 free ports in a row"):
        claim_ports()
    with reclaim_ports(first) as second:
        assert second is None
    block.close()
    with reclaim_ports(first) as second:
        assert second
        assert second.ports == block.ports


def test_a_block_is_free_again_when_its_owner_was_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        first = int(holder.stdout.readline())
        with reclaim_ports(first) as block:
            assert block is None
        holder.kill()
        holder.wait()
        with reclaim_ports(first) as block:
            assert block


@pytest.mark.parametrize("first", [None, "11000", 11_003, 80, -1])
def test_what_never_was_a_block_is_not_claimed(first: object) -> None:
    with reclaim_ports(first) as block:
        assert block is None


def test_a_block_with_a_listener_in_it_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    block = claim_ports()
    block.close()
    first = block.ports["master.port"]
    monkeypatch.setattr(ports, "_FIRSTS", range(first, first + ports._SIZE, ports._SIZE))
    with (
        socket.create_server(("127.0.0.1", block.every["admin.port.grpc"])),
        pytest.raises(Unreachable, match="found no 10 free ports in a row"),
    ):
        claim_ports()
