"""`hansa invite`: what a silo that runs elsewhere is asked to agree to, signed."""

from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.common import say
from hansa.cli.target import Manifest


def invite(
    file: Manifest,
    environment: Annotated[str, typer.Argument(metavar="ENVIRONMENT", help="The silo's name.")],
    key: Annotated[Path, typer.Option("--key", help="File of the coordinator's private key.")],
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="most=PATH:NUMBER|only=PATH:A,B|free=PATH",
            help="Ask the owner to allow this beyond the agreement; may be given many times.",
        ),
    ] = None,
) -> None:
    """Print the invitation for one silo; it holds no secret.

    Send it to the silo's owner by any way, and the fingerprint of your key by another one.
    """
    from hansa.crypto.keys import fingerprint
    from hansa.manifests.load import load
    from hansa.members.courier import load_key
    from hansa.members.invitation import invite as make

    federation = load(file, here=False)
    signer = load_key(str(key))
    print(make(federation, environment, signer, allow or ()).decode())
    say(f"fingerprint of its key: {fingerprint(signer.public)}")
