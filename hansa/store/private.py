"""A silo's private store, which may have keys and a certificate authority of its own.

The exchange's owner issues the exchange's credentials; the silo's own stay in the silo. Where the
variables of the second identity are set, neither store gets the other's credentials.
"""

from collections.abc import Mapping

from hansa.api.spec import S3
from hansa.core.errors import PermanentError
from hansa.core.logs import EXPERIENCE
from hansa.store.base import Credentials
from hansa.store.s3 import S3Store

KEY = f"{EXPERIENCE}AWS_ACCESS_KEY_ID"
SECRET = f"{EXPERIENCE}AWS_SECRET_ACCESS_KEY"
TOKEN = f"{EXPERIENCE}AWS_SESSION_TOKEN"
CA_BUNDLE = f"{EXPERIENCE}AWS_CA_BUNDLE"


def open_private(
    place: S3, environment: str, environ: Mapping[str, str], others: Credentials | None = None
) -> S3Store:
    """The store by its own identity, or, where it has none, by the exchange's.

    `others` are the exchange's credentials; None: the usual AWS chain. With keys of its own and no
    certificate authority the public ones count, not the exchange's.
    """
    path = f"environments[{environment}].experienceStorage.s3"
    own = _credentials(environ, path)
    return S3Store(
        place,
        credentials=own or others,
        verify=environ.get(CA_BUNDLE) or (True if own else None),
        path=path,
        variables=EXPERIENCE,
    )


def _credentials(environ: Mapping[str, str], path: str) -> Credentials | None:
    """The silo's own credentials; an error where only one half of the pair is set."""
    given = [name for name in (KEY, SECRET) if name in environ]
    if not given:
        return None
    missing = [name for name in (KEY, SECRET) if not environ.get(name)]
    if missing:
        raise PermanentError(f"{path}: got no {missing[0]}, expected both {KEY} and {SECRET}")
    return Credentials(
        access_key=environ[KEY],
        secret_key=environ[SECRET],
        session_token=environ.get(TOKEN) or None,
    )
