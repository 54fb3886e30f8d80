"""The base of every model in the contract, and the field types that all documents share."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A digest, as all documents have it."""
Sha256OrEmpty = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
"""The same, or nothing yet."""
LAST_YEAR = 9000
"""Later moments leave no room for a timeout after them."""


def _check_time(moment: datetime) -> datetime:
    if moment.tzinfo is None or moment.year > LAST_YEAR:
        raise ValueError(
            f"got {moment.isoformat()}, expected a time zone and a year to {LAST_YEAR}"
        )
    return moment


Time = Annotated[datetime, Strict(False), AfterValidator(_check_time)]
"""A moment as statuses have it."""


class Model(BaseModel):
    """Base of every model in the contract: camelCase outside, frozen, and no field left unread."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data with the names users write, absent fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
