"""Credentials of a run with an object store of the user's own: one identity per environment, whose
keys of all kinds reach its own silo's clients alone."""

import json
from collections.abc import Mapping
from pathlib import Path

from hansa.api.endpoint import ENV_API_KEY
from hansa.api.secure_aggregation import ENV_MASKING_KEY
from hansa.api.spec import FederationSpec
from hansa.core.errors import InputError
from hansa.core.logs import EXPERIENCE
from hansa.store.base import Credentials
from hansa.store.experience import ENV_EXPERIENCE_KEY
from hansa.store.sealed import read_opening_keys

_KEY_FILE_ENDING = ".key"


def pick_reader(given: dict[str, dict[str, str]]) -> dict[str, str]:
    """Variables to read results with: the default's, or the aggregator's."""
    return given.get("default") or given.get("aggregator") or {}


def drop_private(variables: dict[str, str]) -> dict[str, str]:
    """Without what opens a private store or an endpoint: that is for the silo's client alone."""
    own = (EXPERIENCE, ENV_API_KEY)
    return {name: value for name, value in variables.items() if not name.startswith(own)}


def read_signer(variables: Mapping[str, str]) -> Credentials | None:
    """The keys in these AWS_* variables; None: the usual AWS credential chain."""
    if "AWS_ACCESS_KEY_ID" not in variables or "AWS_SECRET_ACCESS_KEY" not in variables:
        return None
    return Credentials(
        access_key=variables["AWS_ACCESS_KEY_ID"],
        secret_key=variables["AWS_SECRET_ACCESS_KEY"],
        session_token=variables.get("AWS_SESSION_TOKEN"),
    )


def read_credentials(path: Path) -> dict[str, dict[str, str]]:
    """AWS_* variables by identity, from a JSON file; values are never repeated in messages."""
    expected = (
        'expected {"maze": {"AWS_ACCESS_KEY_ID": "...", ...}, "aggregator": {...}}; keys of a '
        f"private store are called {EXPERIENCE}AWS_..., that of an endpoint {ENV_API_KEY}, the "
        f"file of a silo's own key {ENV_EXPERIENCE_KEY}"
    )
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"--credentials: {path}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"--credentials: {path} is no JSON, {expected}") from None
    if not isinstance(data, dict):
        raise InputError(f"--credentials: {path} holds no object, {expected}")
    for name, variables in data.items():
        if not isinstance(variables, dict) or not all(
            is_known(key) and isinstance(value, str) for key, value in variables.items()
        ):
            raise InputError(f"--credentials: {path}: {name} is not of that form, {expected}")
    return data


def is_known(name: str) -> bool:
    """Whether a variable is one that opens something."""
    known = (ENV_API_KEY, ENV_EXPERIENCE_KEY)
    return name in known or name.removeprefix(EXPERIENCE).startswith("AWS_")


def check_experience_key(variables: Mapping[str, str], silo: str, field: str) -> None:
    """Refuse a file without keys, and none at all where `field` says that experience is sealed."""
    path = variables.get(ENV_EXPERIENCE_KEY, "")
    if path:
        read_opening_keys(Path(path), f"{ENV_EXPERIENCE_KEY} of {silo}")
    elif field:
        raise InputError(
            f"--credentials: got no {ENV_EXPERIENCE_KEY} for {silo}, expected the file of the "
            f"silo's own key, since {field} seals its experience",
            hint="`hansa keys new FILE --sealing` makes one",
        )


def read_masking_keys(spec: FederationSpec, folder: Path | None) -> dict[str, dict[str, str]]:
    """By environment, what its clients get; refused where a mask could not be made, or hides
    nothing."""
    if spec.aggregation.secure is None:
        return {}
    here = [e for e in spec.environments if e.member is None]
    if here and folder is None:
        raise InputError(
            "--masking-keys: got none, expected a folder with the file "
            f"{here[0].name}{_KEY_FILE_ENDING} of each environment's masking key",
            hint="`hansa keys new FILE --masking` makes one",
        )
    return {
        e.name: read_masking_key(
            folder / f"{e.name}{_KEY_FILE_ENDING}", e.masking_key, "--masking-keys"
        )
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
