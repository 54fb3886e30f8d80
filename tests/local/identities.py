"""Credentials of parties that have a pair of keys for the exchange, and one for a private store."""

import json
from collections.abc import Iterable
from pathlib import Path

from hansa.local.objectstore import LocalStore
from hansa.store.private import KEY, SECRET


def write(folder: Path, names: Iterable[str], exchange: LocalStore, private: LocalStore) -> Path:
    """The file that `--credentials` takes."""
    given = {}
    for name in names:
        shared, own = exchange.credentials[name], private.credentials[name]
        given[name] = {
            "AWS_ACCESS_KEY_ID": shared.access_key,
            "AWS_SECRET_ACCESS_KEY": shared.secret_key,
            KEY: own.access_key,
            SECRET: own.secret_key,
        }
    path = folder / "credentials.json"
    path.write_text(json.dumps(given))
    return path
