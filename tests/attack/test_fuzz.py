"""No bytes of another party end a program, take a second, or take more than 64 MiB."""

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hansa.validation.json_size import MOST_MARKS
from tests.attack.foreign import written
from tests.attack.targets import TARGETS, Target

pytestmark = pytest.mark.slow

MOST_SECONDS = 1.0
TRIES = 3
MOST_MEMORY = 64 * 2**20
EVERY = pytest.mark.parametrize("name", TARGETS)
fuzz = settings(
    database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def sound(target: Target) -> bytes:
    made = target.sound()
    return made if isinstance(made, bytes) else written(made)


def read_in_time(target: Target, data: bytes) -> str:
    """Within a second of the processor's time, whatever else this machine does.

    Time that another machine took from this one counts as ours; what is slow is so again.
    """
    for _ in range(TRIES):
        began = time.thread_time()
        answer = target.read(data)
        if time.thread_time() - began < MOST_SECONDS:
            return answer
    raise AssertionError(f"took more than {MOST_SECONDS} s each of {TRIES} times")


@pytest.mark.attack(
    by="an honest party",
    does="sends what each reader is for",
    result="accepted; otherwise the attacks on readers would prove nothing",
)
@EVERY
def test_what_an_honest_party_sends_is_taken(name: str) -> None:
    """Else the tests below would try nothing but a locked door."""
    target = TARGETS[name]
    assert target.read(sound(target)) == "taken"


def try_bytes(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    assert read_in_time(target, data.draw(target.hostile)) in ("taken", "refused")


@pytest.mark.attack(
    by="a silo",
    does=(
        "sends any bytes in place of a file, manifest, report, evaluation, log entry or last words"
    ),
    result="accepted or refused; no reader crashes, or takes a second or 64 MiB",
)
@EVERY
@settings(fuzz, max_examples=150)
@given(data=st.data())
def test_no_bytes_end_their_reader(name: str, data: st.DataObject) -> None:
    try_bytes(name, data)


@pytest.mark.attack(
    by="a silo",
    does=(
        "sends any bytes in place of a file, manifest, report, evaluation, log entry or last words"
    ),
    result="accepted or refused; no reader crashes, or takes a second or 64 MiB",
)
@pytest.mark.full
@pytest.mark.timeout(1800)
@EVERY
@settings(fuzz, max_examples=20_000)
@given(data=st.data())
def test_of_20000_files_none_ends_its_reader(name: str, data: st.DataObject) -> None:
    """Nor takes much memory, each of them by itself."""
    target = TARGETS[name]
    hostile = data.draw(target.hostile)
    assert memory_of(lambda: read_in_time(target, hostile)) < MOST_MEMORY


PIECES = ["0", "[]", "{}", '{"a":0}', '"%x":0', '"%x":[]', '"%x":[0,1]', '"%x":{"a":0}', "[" * 100]


def crowded(piece: str, where: str, target: Target, marks: int) -> bytes:
    """As many small things in the place of a document, or of a field, as bytes and marks allow."""
    by_bytes = (target.most - 100) // (len(piece.replace("%x", "00000")) + 1)
    by_marks = (marks - 100) // (1 + sum(piece.count(mark) for mark in ",:[{"))
    count = max(1, min(by_bytes, by_marks))
    body = ",".join(piece.replace("%x", f"{i:05x}") for i in range(count))
    inner = f"{{{body}}}" if piece.startswith('"') else f"[{body}]"
    return (where.replace("%s", inner) if where else inner).encode()


PLACES = {
    "alone": "",
    "as inputs": '{"inputs":{"x":%s}}',
    "as members": '{"members":%s}',
    "as tasks": '{"tasks":%s}',
    "as files": '{"files":%s}',
    "as metadata": '{"__metadata__":%s}',
}


@pytest.mark.attack(
    by="a silo",
    does="sends megabytes of `{},`, or headers of 15 MiB",
    result="refused before they are parsed",
)
@pytest.mark.parametrize("place", PLACES)
@EVERY
def test_the_most_of_anything_takes_little_memory(name: str, place: str) -> None:
    """All that is parsed, and, more than that, all that is read."""
    target = TARGETS[name]
    for piece in PIECES:
        check_memory(name, piece, crowded(piece, PLACES[place], target, MOST_MARKS))
    check_memory(name, "all", crowded("{}", PLACES[place], target, 10**9))


def check_memory(name: str, what: str, data: bytes) -> None:
    target = TARGETS[name]
    if name in ("safetensors header", "masked update", "moments"):
        data = len(data).to_bytes(8, "little") + data
    assert len(data) <= target.most + 8
    assert memory_of(lambda: read_in_time(target, data)) < MOST_MEMORY, what


def memory_of(call: Callable[[], object]) -> int:
    """Bytes that a call makes the process grow by at its peak; parsers have memory of their own."""
    if sys.platform != "linux":
        return _traced(call)
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    call()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def _traced(call: Callable[[], object]) -> int:
    import tracemalloc

    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
