"""Sealed objects: what goes in comes out, for one reader, under one name, and whole."""

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansa.core.errors import InputError, KeyMissing, UnsealError
from hansa.crypto import dsse, sealing
from hansa.crypto.sealing import CHUNK, HEAD, STEP, Unsealer

MINE, OTHER = sealing.generate_opening_key(), sealing.generate_opening_key()
NAME = "fed/updates/maze/00001/adapter_model.safetensors"
SIZES = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 77)


def data(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


def sealed(size: int = 2 * CHUNK + 77) -> bytes:
    return sealing.seal(MINE.public, NAME, data(size))


@pytest.mark.parametrize("size", SIZES)
def test_what_was_sealed_is_what_is_opened_and_sizes_follow_from_each_other(size: int) -> None:
    made = sealed(size)
    assert sealing.unseal([OTHER, MINE], NAME, made) == data(size)
    assert len(made) == sealing.sealed_size(size)
    assert sealing.plain_size(len(made)) == size


@given(size=st.sampled_from(SIZES), cuts=st.lists(st.integers(0, 3 * STEP), max_size=4))
def test_it_opens_piece_by_piece_however_the_pieces_are_cut(size: int, cuts: list[int]) -> None:
    made, ends = sealed(size), sorted({*cuts, 3 * STEP})
    opening, begin, out = Unsealer([MINE], NAME, len(made)), 0, b""
    for end in ends:
        out += b"".join(opening.feed(made[begin:end]))
        begin = end
    assert out == data(size)


@given(
    size=st.sampled_from(SIZES),
    start=st.integers(0, 2 * CHUNK + 100),
    length=st.integers(0, 2 * CHUNK),
)
def test_a_part_of_it_opens_by_itself(size: int, start: int, length: int) -> None:
    made, read = sealed(size), 0

    def fetch(begin: int, count: int) -> bytes:
        nonlocal read
        read += count
        return made[begin : begin + count]

    wanted = range(start, start + length)
    assert (
        sealing.unseal_range([MINE], NAME, wanted, len(made), fetch)
        == data(size)[start : start + length]
    )
    assert read <= HEAD + (length // CHUNK + 2) * STEP


def test_no_byte_of_it_shows_in_what_is_sealed_and_no_two_are_alike() -> None:
    first, second = sealed(), sealed()
    assert b"0123456789abcdef" not in first
    assert first[HEAD:] != second[HEAD:]


def flipped(made: bytes, at: int) -> bytes:
    return made[:at] + bytes([made[at] ^ 1]) + made[at + 1 :]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda m: flipped(m, 0), id="another kind"),
        pytest.param(lambda m: flipped(m, HEAD - 1), id="another public key in the head"),
        pytest.param(lambda m: flipped(m, HEAD), id="first byte"),
        pytest.param(lambda m: flipped(m, len(m) - 1), id="last byte"),
        pytest.param(lambda m: m[:-1], id="a byte less"),
        pytest.param(lambda m: m + b"x", id="a byte more"),
        pytest.param(lambda m: m[: HEAD + STEP], id="cut after the first chunk"),
        pytest.param(lambda m: m[: HEAD + 2 * STEP], id="cut before the last chunk"),
        pytest.param(lambda m: m[:HEAD], id="the head alone"),
        pytest.param(lambda m: m[: HEAD - 1], id="half a head"),
        pytest.param(lambda m: b"", id="nothing"),
        pytest.param(
            lambda m: m[:HEAD] + m[HEAD + STEP : HEAD + 2 * STEP] + m[HEAD : HEAD + STEP]
            + m[HEAD + 2 * STEP :],
            id="chunks in another order",
        ),
        pytest.param(lambda m: m[: HEAD - 32] + bytes(32) + m[HEAD:], id="a point of no order"),
    ],
)  # fmt: skip
def test_what_was_changed_does_not_open(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(UnsealError):
        sealing.unseal([MINE], NAME, change(sealed()))


def test_it_opens_under_its_own_name_and_for_its_reader_alone() -> None:
    with pytest.raises(UnsealError, match="chunk 0 is not as it was sealed"):
        sealing.unseal([MINE], NAME.replace("maze", "shop"), sealed())
    with pytest.raises(KeyMissing, match="which is not at hand"):
        sealing.unseal([OTHER], NAME, sealed())
    with pytest.raises(UnsealError, match="it is not sealed"):
        sealing.unseal([MINE], NAME, data(1000))


@pytest.mark.parametrize("size", [0, HEAD, HEAD + 15, HEAD + STEP + 1, HEAD + STEP + 15])
def test_a_size_that_no_sealed_object_has_is_said(size: int) -> None:
    with pytest.raises(UnsealError, match="which no sealed object has"):
        sealing.plain_size(size)


def test_a_file_may_hold_several_keys_one_after_another() -> None:
    both = sealing.read_keys(b"new:\n" + MINE.pem() + b"\nold:\n" + OTHER.pem(), "file")
    assert [key.public for key in both] == [MINE.public, OTHER.public]
    assert "private" not in repr(both[0])


@pytest.mark.parametrize(
    "pem",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"text", id="no key"),
        pytest.param(dsse.generate_signing_key().pem(), id="a key that signs"),
        pytest.param(MINE.pem() + dsse.generate_signing_key().pem(), id="one of two signs"),
        pytest.param(MINE.pem() * 9, id="too many"),
        pytest.param(MINE.pem().replace(b"M", b"!", 1), id="a garbled one"),
    ],
)
def test_a_file_that_holds_no_such_keys_is_refused(pem: bytes) -> None:
    with pytest.raises(InputError, match=r"^--sealing-key: got no private keys that can") as no:
        sealing.read_keys(pem, "--sealing-key")
    for line in pem.decode(errors="replace").split():
        assert len(line) < 30 or line not in no.value.message


def test_a_point_to_which_everybody_has_the_secret_seals_nothing() -> None:
    zero = "x25519:" + base64.urlsafe_b64encode(bytes(32)).decode().rstrip("=")
    with pytest.raises(InputError, match="which seals nothing"):
        sealing.seal(zero, NAME, b"text")
