"""A Federation's spec, checked as a whole."""

from typing import Any, Self

from pydantic import model_validator

from hansa.api import cross_checks
from hansa.api.aggregation import Aggregation as Aggregation
from hansa.api.evaluation import Evaluation as Evaluation
from hansa.api.evaluation import Guard as Guard
from hansa.api.experience import Experience as Experience
from hansa.api.experience import Exploration as Exploration
from hansa.api.experience import FileSource as FileSource
from hansa.api.privacy import Privacy as Privacy
from hansa.api.spec_fields import MAX_ENVIRONMENTS as MAX_ENVIRONMENTS
from hansa.api.spec_fields import MAX_FEDERATION_NAME as MAX_FEDERATION_NAME
from hansa.api.spec_fields import MAX_SECONDS as MAX_SECONDS
from hansa.api.spec_fields import Adapter as Adapter
from hansa.api.spec_fields import DnsName as DnsName
from hansa.api.spec_fields import Environment as Environment
from hansa.api.spec_fields import FederationName as FederationName
from hansa.api.spec_fields import Metadata as Metadata
from hansa.api.spec_fields import ModelPlace as ModelPlace
from hansa.api.spec_fields import ModelSource as ModelSource
from hansa.api.spec_fields import Participation as Participation
from hansa.api.spec_fields import QueueName as QueueName
from hansa.api.spec_fields import RoundSettings as RoundSettings
from hansa.api.spec_fields import Seconds as Seconds
from hansa.api.spec_fields import SpecFields
from hansa.api.storage import S3 as S3
from hansa.api.storage import ExchangeStorage as ExchangeStorage
from hansa.api.storage import SecretKey as SecretKey
from hansa.api.storage import SecretName as SecretName
from hansa.api.storage import Storage as Storage
from hansa.api.training import Training as Training
from hansa.core.model import Model as Model


class FederationSpec(SpecFields):
    """One base model, one adapter, several environments and the rounds that make it better."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        cross_checks.check(self)
        return self


def differences(old: Any, new: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Leaves that differ between two JSON documents, as (path, old, new)."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            leaf
            for key in sorted(old.keys() | new.keys())
            for leaf in differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if old == new else [(path, old, new)]
