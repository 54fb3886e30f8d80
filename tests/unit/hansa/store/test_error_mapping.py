"""What a store's refusals mean, for those that no server here can be made to give."""

import pytest

from hansa.api.spec import S3
from hansa.core.errors import ClockSkewed, Denied
from hansa.store.error_mapping import ErrorMapper

ANSWERS = ErrorMapper(s3=S3(bucket="hansa"), path="storage.s3", patience_seconds=1)


@pytest.mark.parametrize(
    "code, kind, sentence",
    [
        ("InvalidAccessKeyId", Denied, "the access key is not known there"),
        ("SignatureDoesNotMatch", Denied, "the secret key does not fit the access key"),
        ("ExpiredToken", Denied, "the credentials have expired"),
        ("InvalidToken", Denied, "the session token is not valid"),
        ("RequestTimeTooSkewed", ClockSkewed, "the clocks of this machine and the store differ"),
    ],
)
def test_why_credentials_are_refused_is_said(code: str, kind: type[Denied], sentence: str) -> None:
    response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    refusal = ANSWERS.map_response(response, "orders/maze/000001.json", "read")
    assert type(refusal) is kind
    assert sentence in refusal.message and "s3://hansa/orders/maze/000001.json" in refusal.message
