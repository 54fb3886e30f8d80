"""`hansa invite`: what a silo that runs elsewhere is asked to agree to, signed."""

from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.common import say


def invite(
    environment: Annotated[str, typer.Argument(metavar="ENVIRONMENT", help="The silo's name.")],
    file: Annotated[Path, typer.Option("-f", "--file", help="Manifest, or - for stdin.")],
    key: Annotated[Path, typer.Option("--key", help="File of the coordinator's private key.")],
) -> None:
    """Print the invitation for one silo; it holds no secret.

    Send it to the silo's owner by any way, and read out the eight words by another one.
    """
    from hansa.exchange.courier import load_key
    from hansa.exchange.envelope import words
    from hansa.load import load
    from hansa.member.invitation import invite as make

    signer = load_key(str(key))
    print(make(load(file, here=False), environment, signer).decode())
    say(f"the words of its key: {words(signer.public)}")
