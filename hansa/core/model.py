"""The base of every model in the contract."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A digest, as all documents have it."""
Sha256OrEmpty = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
"""The same, or nothing yet."""


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
