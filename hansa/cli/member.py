"""`hansa member`: from an invitation to the manifest of the silo that accepts it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.common import Format, Output, print_data, say
from hansa.core.errors import InputError


def member(
    invitation: Annotated[Path, typer.Argument(metavar="INVITATION", help="File, or - for stdin.")],
    key: Annotated[Path, typer.Option("--key", help="File of the silo's own private key.")],
    world: Annotated[str, typer.Option("--world", help="World that the silo plays.")],
    output: Output = Format.YAML,
) -> None:
    """Print a FederationMember with what the invitation says filled in.

    Compare the fingerprint with the coordinator first: the holder of that key gives the orders.
    """
    from hansa.crypto.keys import fingerprint
    from hansa.members.allowances import describe_allowances
    from hansa.members.courier import load_key
    from hansa.members.invitation import build_member_manifest, open_invitation

    name = "standard input" if str(invitation) == "-" else str(invitation)
    try:
        is_stdin = str(invitation) == "-"
        data = sys.stdin.buffer.read() if is_stdin else invitation.read_bytes()
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{name}: got a file that cannot be read ({why})") from None
    read, signer = open_invitation(data, name)
    say(f"signed by {signer}: {fingerprint(signer)}")
    say("compare this fingerprint with the coordinator before you apply or join")
    for silo, masking_key in sorted((read.agreed.masking_keys or {}).items()):
        say(f"{silo} masks with {masking_key}: {fingerprint(masking_key)}")
    if read.allow:
        say("the coordinator asks you to allow this; take out of spec.limits what you do not:")
        for line in describe_allowances(read.allow, read.agreed):
            say(f"  {line}")
    made = build_member_manifest(read, load_key(str(key)).public, world)
    print_data(made, Format.YAML if output is Format.TABLE else output)
