"""A silo's private store, which may have keys and a certificate authority of its own.

The exchange's owner issues the exchange's keys; a silo's own are nobody else's business. Where the
variables of the second identity are set, neither store is ever shown the other's.
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

    `others` are the exchange's credentials; None: the usual AWS chain finds them. With keys of its
    own and no authority the public ones count: the exchange's does not vouch for it.
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
    """Half a pair is a mistake: the exchange's keys are no stand-in for it."""
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
