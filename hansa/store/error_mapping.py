"""Answers of a store as errors of Hansa, with a sentence that names the field."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hansa.api.spec import S3
from hansa.core.errors import ClockSkewed, Denied, NotFound, Precondition, StoreError, Unreachable

_BAD_CREDENTIALS = {
    "InvalidAccessKeyId": "the access key is not known there",
    "SignatureDoesNotMatch": "the secret key does not fit the access key",
    "ExpiredToken": "the credentials have expired",
    "InvalidToken": "the session token is not valid",
}
_WRONG_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraint"}
_WORTH_ANOTHER_TRY = {
    "BadDigest",
    "IncompleteBody",
    "RequestTimeout",
    "SlowDown",
    "XAmzContentSHA256Mismatch",
}


@dataclass(frozen=True, kw_only=True)
class ErrorMapper:
    """The answers of one store."""

    s3: S3
    """Its place."""
    path: str
    """The manifest's field that errors name."""
    patience_seconds: float
    """How long requests are retried before the store counts as unreachable."""

    def map_response(self, response: Mapping[str, Any], key: str, verb: str) -> StoreError:
        """The error of an unsuccessful answer; only Unreachable is worth a retry."""
        code = str(response.get("Error", {}).get("Code", ""))
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        text = str(response.get("Error", {}).get("Message", ""))
        where = self.uri(key)
        if code == "NoSuchBucket":
            return Denied(
                f"{self.path}.bucket: got {self.s3.bucket}, which is not at {self.endpoint}",
                hint="make the bucket, or name another",
            )
        if code in _BAD_CREDENTIALS:
            why = f"{self.endpoint} refused: {_BAD_CREDENTIALS[code]} ({code})"
            return Denied(f"{self.path}: {where}: {why}")
        if code == "RequestTimeTooSkewed":
            return ClockSkewed(
                f"{self.path}: {where}: {self.endpoint} refused: the clocks of this machine and "
                f"the store differ too much ({code})",
                hint="set this machine's clock; stores take at most 15 minutes",
            )
        if code in _WRONG_REGION:
            return Denied(f"{self.path}.region: got {self.s3.region}, which does not fit ({text})")
        if status == 416:
            return RangeBeyondEnd(f"{where}: the range starts behind the end")
        if status == 404:
            return NotFound(f"{where}: there is no such object")
        if status == 412:
            return Precondition(f"{where}: the object exists already")
        is_transient = status in (408, 409, 429) or (status >= 500 and status != 501)
        if is_transient or code in _WORTH_ANOTHER_TRY:
            return self.unreachable(f"it answered {status} {code} when asked to {verb} {where}")
        if status in (401, 403):
            return Denied(
                f"{self.path}: {where}: the credentials may not {verb} it ({code})",
                hint="`hansa policy` prints the policy that each identity needs",
            )
        return Denied(f"{where}: {self.endpoint} refused to {verb} it: {status} {code} {text}")

    def unreachable(self, cause: str) -> Unreachable:
        """The error of a store that gave no good answer; it may be back later."""
        return Unreachable(
            f"{self.path}.endpoint: {self.endpoint} gave no good answer for "
            f"{self.patience_seconds:g} s; the last cause: {cause}",
            hint="see that the address is right and that the store runs",
        )

    @property
    def endpoint(self) -> str:
        """Address of the store, in words."""
        return self.s3.endpoint or f"Amazon S3 in {self.s3.region}"

    def uri(self, key: str) -> str:
        """Where an object is, as people write it."""
        return f"s3://{self.s3.bucket}/{key}"


class RangeBeyondEnd(StoreError):
    """A range that starts behind the object's end; readers of ranges take it as empty."""
