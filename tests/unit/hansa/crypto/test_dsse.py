"""Envelopes: what a trusted key signed comes out as it was, and nothing else comes out at all."""

import base64
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.core.errors import InputError
from hansa.crypto import dsse, keys
from hansa.crypto.dsse import SigningKey, Unverified, sign_envelope, verify_envelope

KIND = "application/vnd.hansa.order.v1+json"
MINE, OTHER = dsse.generate_signing_key(), dsse.generate_signing_key()
PEM = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
"""
"""The first key of RFC 8032's tests."""
PUBLIC = "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
RSA = b"""-----BEGIN PUBLIC KEY-----
MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf
-----END PUBLIC KEY-----
"""


def fault(data: bytes, kind: str = KIND, trusted: tuple[SigningKey, ...] = (MINE,)) -> str:
    with pytest.raises(Unverified) as caught:
        verify_envelope(data, kind, [key.public for key in trusted])
    return caught.value.code


def changed(data: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(data), **fields}).encode()


def test_what_is_signed_is_that_of_the_specification() -> None:
    made = dsse.encode_pre_authentication("http://example.com/HelloWorld", b"hello world")
    assert made == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_a_key_is_read_and_written_as_others_do() -> None:
    key = dsse.read_key(PEM, "signing.key")
    assert key.public == PUBLIC
    assert key.pem() == PEM
    assert key.private.sign(b"").hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d9")
    assert keys.keyid(PUBLIC) == "21fe31dfa154a261"


def test_an_envelope_has_these_bytes() -> None:
    key = dsse.read_key(PEM, "signing.key")
    data = sign_envelope(key, KIND, b"{}\n")
    assert data == sign_envelope(key, KIND, b"{}\n")
    assert json.loads(data) == {
        "payloadType": KIND,
        "payload": "e30K",
        "signatures": [
            {
                "keyid": "21fe31dfa154a261",
                "sig": base64.b64encode(
                    key.private.sign(b"DSSEv1 35 " + KIND.encode() + b" 3 {}\n")
                ).decode(),
            }
        ],
    }
    assert data.endswith(b"}\n")


def test_any_trusted_key_is_enough() -> None:
    data = sign_envelope(MINE, KIND, b"text")
    assert verify_envelope(data, KIND, [OTHER.public, MINE.public]) == b"text"


def test_a_hint_at_another_key_changes_nothing() -> None:
    sealed = sign_envelope(MINE, KIND, b"text")
    [signature] = json.loads(sealed)["signatures"]
    for hint in ({}, {"keyid": keys.keyid(OTHER.public)}, {"keyid": "?"}):
        data = changed(sealed, signatures=[{"sig": signature["sig"], **hint}])
        assert verify_envelope(data, KIND, [OTHER.public, MINE.public]) == b"text"


def test_nothing_is_trusted_where_no_key_is() -> None:
    assert fault(sign_envelope(MINE, KIND, b"text"), trusted=()) == "unknown-key"
    assert fault(sign_envelope(MINE, KIND, b"text"), trusted=(OTHER,)) == "unknown-key"


def test_a_letter_of_one_kind_does_not_pass_for_another() -> None:
    data = sign_envelope(MINE, KIND, b"text")
    answer = KIND.replace("order", "answer")
    assert fault(data, kind=answer) == "payload-type"
    assert fault(changed(data, payloadType=answer), kind=answer) == "signature"


def test_another_payload_is_not_signed() -> None:
    data = changed(sign_envelope(MINE, KIND, b"text"), payload=base64.b64encode(b"next").decode())
    assert fault(data) == "signature"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"signatures": []}, id="no signature"),
        pytest.param({"signatures": [{"sig": "AAAA"}, {"sig": "AAAA"}]}, id="two signatures"),
        pytest.param({"signatures": [{"sig": "?"}]}, id="a signature that is no base64"),
        pytest.param({"payload": "dGV4dA"}, id="a payload without its padding"),
        pytest.param({"payload": "dGV4\ndA=="}, id="a payload in two lines"),
        pytest.param({"payload": "ä"}, id="a payload that is no base64"),
        pytest.param({"payload": 7}, id="a payload that is no text"),
        pytest.param({"more": 1}, id="a field that nobody reads"),
    ],
)
def test_what_is_no_envelope_is_malformed(fields: dict[str, Any]) -> None:
    assert fault(changed(sign_envelope(MINE, KIND, b"text"), **fields)) == "malformed"


@given(data=st.binary(max_size=300))
def test_no_bytes_are_taken_for_an_envelope(data: bytes) -> None:
    assert fault(data) == "malformed"


@settings(max_examples=200)
@given(payload=st.binary(max_size=40), place=st.integers(0), flip=st.integers(1, 255))
def test_a_payload_comes_out_as_it_went_in_whatever_happens_to_its_envelope(
    payload: bytes, place: int, flip: int
) -> None:
    data = bytearray(sign_envelope(MINE, KIND, payload))
    assert verify_envelope(bytes(data), KIND, [MINE.public]) == payload
    data[place % len(data)] ^= flip
    try:
        assert verify_envelope(bytes(data), KIND, [MINE.public]) == payload
    except Unverified:
        return


@pytest.mark.parametrize(
    "pem",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\x00secret-bytes", id="no text"),
        pytest.param(PEM.replace(b"MC4C", b"MC4D"), id="damaged"),
        pytest.param(RSA, id="a public key"),
        pytest.param(PUBLIC.encode(), id="ours, as specs have it"),
    ],
)
def test_a_file_without_a_key_is_refused_and_not_shown(pem: bytes) -> None:
    with pytest.raises(InputError, match=r"^my\.key: got no private key that can sign") as caught:
        dsse.read_key(pem, "my.key")
    assert "secret" not in str(caught.value)


def test_a_key_with_a_password_or_of_another_kind_is_refused() -> None:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    pkcs8 = form.PrivateFormat.PKCS8
    locked = MINE.private.private_bytes(
        form.Encoding.PEM, pkcs8, form.BestAvailableEncryption(b"password")
    )
    curve = ec.generate_private_key(ec.SECP256R1())
    for pem in (locked, curve.private_bytes(form.Encoding.PEM, pkcs8, form.NoEncryption())):
        with pytest.raises(InputError, match="expected an Ed25519 key"):
            dsse.read_key(pem, "my.key")


def test_a_key_does_not_show_itself() -> None:
    assert repr(MINE) == "SigningKey()"


@pytest.mark.parametrize(
    "text",
    [
        "",
        PUBLIC.removeprefix("ed25519:"),
        PUBLIC[:-1],
        PUBLIC + "A",
        PUBLIC[:-1] + "p",  # decodes to the same bytes
        PUBLIC.replace("_", "/"),
        PUBLIC.replace("11q", "1\x1bq"),
        "rsa:" + PUBLIC,
        "ed25519:ä",
    ],
)
def test_a_public_key_has_one_spelling(text: str) -> None:
    with pytest.raises(InputError, match="public key: got") as caught:
        keys.parse_public_key("ed25519", text)
    assert caught.value.message.isprintable()


def test_a_fingerprint_is_digits_of_its_sha256_in_groups_of_four() -> None:
    assert keys.fingerprint(PUBLIC) == "21fe 31df a154 a261 626b f854 046f d227"
    assert keys.fingerprint(MINE.public) != keys.fingerprint(OTHER.public)


def test_who_only_imports_this_does_not_wait_for_cryptography() -> None:
    code = "import hansa.members.mailbox, sys; print('cryptography' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
