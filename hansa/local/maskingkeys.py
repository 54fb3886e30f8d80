"""Files of the silos' masking keys on this machine, each for its own silo's clients alone."""

from pathlib import Path

from hansa.api.secure_aggregation import ENV_MASKING_KEY
from hansa.api.spec import FederationSpec
from hansa.core.errors import InputError
from hansa.store.sealed import read_opening_keys

ENDING = ".key"


def read_masking_keys(
    spec: FederationSpec, folder: Path | None, *, embedded: bool
) -> dict[str, dict[str, str]]:
    """By environment, what its clients get; refused where a mask could not be made, or hides
    nothing."""
    if spec.aggregation.secure is None:
        return {}
    if embedded:
        raise InputError(
            "spec.aggregation.secure: got masks, and the embedded store holds every silo's update "
            "without them, expected spec.storage and no --embedded-store"
        )
    here = [e for e in spec.environments if e.member is None]
    if here and folder is None:
        raise InputError(
            "--masking-keys: got none, expected a folder with the file "
            f"{here[0].name}{ENDING} of each environment's masking key",
            hint="`hansa keys new FILE --masking` makes one",
        )
    return {
        e.name: read_masking_key(folder / f"{e.name}{ENDING}", e.masking_key, "--masking-keys")
        for e in here
        if folder
    }


def read_masking_key(path: Path, public: str | None, where: str) -> dict[str, str]:
    """What one silo's clients get; refused where the file has another key than the spec."""
    own = [key.public for key in read_opening_keys(path, where)]
    if public and public not in own:
        raise InputError(
            f"{where}: {path}: got {' and '.join(own)}, expected that of maskingKey, {public}"
        )
    return {ENV_MASKING_KEY: str(path.absolute())}
