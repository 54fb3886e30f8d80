"""`hansa invite`: what a silo that runs elsewhere is asked to agree to, signed."""

from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.common import say


def invite(
    environment: Annotated[str, typer.Argument(metavar="ENVIRONMENT", help="The silo's name.")],
    file: Annotated[Path, typer.Option("-f", "--file", help="Manifest, or - for stdin.")],
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

    Send it to the silo's owner by any way, and read out the eight words by another one.
    """
    from hansa.exchange.courier import load_key
    from hansa.load import load
    from hansa.member.invitation import invite as make
    from hansa.publickeys import words

    signer = load_key(str(key))
    print(make(load(file, here=False), environment, signer, allow or ()).decode())
    say(f"the words of its key: {words(signer.public)}")
