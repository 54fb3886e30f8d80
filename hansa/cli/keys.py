"""`hansa keys`: the signing key of one party, and what the others get of it."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.common import Format, print_data, say
from hansa.errors import InputError

if TYPE_CHECKING:
    from hansa.exchange.envelope import SigningKey

SECRET = "hansa-signing"  # noqa: S105  (a name)
ENTRY = "signing.key"
"""Key of the Secret under which Jobs find it."""
_LONGEST = 64 * 1024
"""Bytes of a file that could be a key."""


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
    file: Annotated[
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
) -> None:
    """Make the key that signs this party's letters, or show its public half.

    It prints the public key, and eight words for the other party to compare over the phone. An
    existing file is never overwritten, and only its owner may read the new one.
    """
    from hansa.exchange import envelope

    if verb is Verb.SHOW and file.startswith(envelope.ALGORITHM):
        _print_public(file, output)
        return
    key = _new(Path(file)) if verb is Verb.NEW else _read(Path(file))
    if output is Form.SECRET:
        print_data(_manifest(key), Format.YAML)
        return
    _print_public(key.public, output)


def _print_public(public: str, output: Form) -> None:
    from hansa.exchange import envelope

    shown = {"publicKey": public, "fingerprint": envelope.words(public)}
    if output is Form.SECRET:
        raise InputError(
            "--output: got secret for a public key, expected the file of a private one"
        )
    if output is Form.TABLE:
        print(*shown.values(), sep="\n")
    else:
        print_data({**shown, "keyid": envelope.keyid(public)}, Format(output.value))


def _new(path: Path) -> "SigningKey":
    """A key in a file that nobody else may read, from its first byte on."""
    from hansa.exchange import envelope

    key = envelope.new_key()
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise InputError(
            f"FILE: got {path}, which exists, expected a new one: a key is never overwritten",
            hint=f"`hansa keys show {path}` prints its public half",
        ) from None
    except OSError as error:
        raise InputError(f"FILE: {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(key.pem())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # half a key would be refused later, when its owner counts on it
        path.unlink(missing_ok=True)
        raise InputError(f"FILE: {path}: {error.strerror}") from None
    say(f"{path} signs for whoever has it: keep it, and give nobody more than the public key")
    return key


def _read(path: Path) -> "SigningKey":
    from hansa.exchange import envelope

    try:
        with path.open("rb") as file:
            others = os.fstat(file.fileno()).st_mode & 0o077
            pem = file.read(_LONGEST)
    except OSError as error:
        raise InputError(f"FILE: {path}: {error.strerror}") from None
    key = envelope.read_key(pem, f"FILE: {path}")
    if others:
        say(f"warning: others on this machine may use {path}: chmod 600 {path}")
    return key


def _manifest(key: "SigningKey") -> dict[str, Any]:
    """The Secret of the private key, to be piped into kubectl."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET},
        "stringData": {ENTRY: key.pem().decode()},
    }
