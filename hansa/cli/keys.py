"""`hansa keys`: the private key of one party, and what the others get of it."""

import os
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hansa.cli.common import Format, print_data, say
from hansa.core.errors import InputError
from hansa.core.files import explain_os_errors

if TYPE_CHECKING:
    from hansa.crypto.dsse import SigningKey
    from hansa.crypto.sealing import OpeningKey

    PrivateKey = SigningKey | OpeningKey

Use = Literal["signing", "sealing", "masking"]
"""What a key is for; the Secret `hansa-USE` has it as `USE.key`."""
_LONGEST = 64 * 1024
"""Bytes of a file that could be a key."""
_POWERS = {
    "signing": "signs for whoever has it",
    "sealing": "opens, for whoever has it, all that is sealed to it",
    "masking": "makes the masks of its silo's updates",
}


class Verb(StrEnum):
    """What to do."""

    NEW = "new"
    SHOW = "show"


class Form(StrEnum):
    """How a key is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    SECRET = "secret"  # noqa: S105  (a choice)


def keys(
    verb: Annotated[Verb, typer.Argument(help="Make a key, or show what the others get of it.")],
    key_file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="File of the private key; with show also a public key itself."
        ),
    ],
    output: Annotated[
        Form,
        typer.Option(
            "-o",
            "--output",
            help="How to print it; secret is a manifest with the private key.",
            case_sensitive=False,
        ),
    ] = Form.TABLE,
    sealing: Annotated[
        bool,
        typer.Option("--sealing", help="Make a key that opens updates, instead of one that signs."),
    ] = False,
    masking: Annotated[
        bool,
        typer.Option("--masking", help="Make a silo's masking key, or show its Secret."),
    ] = False,
) -> None:
    """Make the key that signs letters, opens updates or masks them; or show its public half.

    It prints the public key, and its fingerprint for the other party to compare. An existing file
    is never overwritten, and only its owner may read the new one.
    """
    from hansa.crypto.keys import is_public_key

    if verb is Verb.SHOW and is_public_key(key_file):
        _print_public(key_file, output)
        return
    use: Use = "masking" if masking else "sealing" if sealing else "signing"
    path = Path(key_file)
    key, use = (_make_key(path, use), use) if verb is Verb.NEW else _read(path, masking)
    if output is Form.SECRET:
        print_data(_build_secret(key, use), Format.YAML)
        return
    _print_public(key.public, output)


def _print_public(public: str, output: Form) -> None:
    from hansa.crypto.keys import fingerprint, keyid

    shown = {"publicKey": public, "fingerprint": fingerprint(public)}
    if output is Form.SECRET:
        raise InputError(
            "--output: got secret for a public key, expected the file of a private one"
        )
    if output is Form.TABLE:
        print(*shown.values(), sep="\n")
    else:
        print_data({**shown, "keyid": keyid(public)}, Format(output.value))


def _make_key(path: Path, use: Use) -> "PrivateKey":
    """A key in a file that nobody else may read, from its first byte on."""
    from hansa.crypto import dsse, sealing

    key = dsse.generate_signing_key() if use == "signing" else sealing.generate_opening_key()
    with explain_os_errors(f"FILE: {path}"):
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise InputError(
                f"FILE: got {path}, which exists, expected a new one: a key is never overwritten",
                hint=f"`hansa keys show {path}` prints its public half",
            ) from None
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(key.pem())
                file.flush()
                os.fsync(file.fileno())
        except OSError:  # half a key would be refused later, when its owner counts on it
            path.unlink(missing_ok=True)
            raise
    say(f"{path} {_POWERS[use]}: keep it secret, and share the public key only")
    return key


def _read(path: Path, masking: bool) -> tuple["PrivateKey", Use]:
    """The private key of a file, and what it is for; of several sealing keys the first."""
    with explain_os_errors(f"FILE: {path}"), path.open("rb") as file:
        others = os.fstat(file.fileno()).st_mode & 0o077
        pem = file.read(_LONGEST)
    key, use = _parse_key(pem, path)
    if masking and use == "signing":
        raise InputError(f"--masking: got {path}, which signs, expected a masking key")
    use = "masking" if masking else use
    if others:
        say(f"warning: others on this machine may use {path}: chmod 600 {path}")
    return key, use


def _parse_key(pem: bytes, path: Path) -> tuple["PrivateKey", Use]:
    from hansa.crypto import dsse, sealing

    with suppress(InputError):
        return sealing.read_keys(pem, "")[0], "sealing"
    return dsse.read_key(pem, f"FILE: {path}"), "signing"


def _build_secret(key: "PrivateKey", use: Use) -> dict[str, Any]:
    """The Secret of the private key, to be piped into kubectl."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"hansa-{use}"},
        "stringData": {f"{use}.key": key.pem().decode()},
    }
