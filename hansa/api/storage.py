"""spec.storage as data: a place in an S3-compatible store, and the Secrets that open it."""

from typing import Annotated, Literal

from pydantic import Field

from hansa.core.model import Model


class SecretName(Model):
    """A Secret in the federation's namespace."""

    name: Annotated[
        str,
        Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
        Field(min_length=1, max_length=253),
    ]
    """Name of the Secret."""


class SecretKey(SecretName):
    """One key of a Secret in the federation's namespace."""

    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", min_length=1, max_length=253)]
    """Key inside the Secret."""


class S3(Model):
    """A place in an S3-compatible object store."""

    endpoint: Annotated[str, Field(pattern=r"^https?://[^\s/]+/?$", max_length=300)] | None = None
    """Address of the store; absent: Amazon's own for the region."""
    bucket: Annotated[
        str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", min_length=3, max_length=63)
    ]
    """Bucket that holds the federation."""
    prefix: Annotated[
        str, Field(pattern=r"^([A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*)?$", max_length=200)
    ] = ""
    """Path inside the bucket, without slashes at its ends; one run per prefix."""
    region: Annotated[str, Field(min_length=1, max_length=50)] = "us-east-1"
    """Region the requests are signed for."""
    addressing_style: Literal["auto", "path", "virtual"] = "path"
    """`path` puts the bucket into the path, `virtual` into the host name."""
    credentials_secret: SecretName | None = None
    """Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; absent: the SDK's default chain."""
    ca_secret: SecretKey | None = None
    """Certificate authority of the endpoint, where it is not a public one."""


class Storage(Model):
    """Where objects are kept."""

    s3: S3
    """The S3-compatible store."""


class ExchangeStorage(Storage):
    """Where adapters are exchanged."""

    sealing_secret: SecretName | None = None
    """Secret with the key that opens updates as `sealing.key`, where aggregation.sealTo seals them;
    only aggregators get it. `hansa run` takes a file instead (--sealing-key)."""
