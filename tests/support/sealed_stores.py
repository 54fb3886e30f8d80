"""Assignments with sealed updates, and writers that are killed."""

from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import StartAdapter
from hansa.api.spec import S3, Adapter, Aggregation, ModelSource
from hansa.api.status import RoundSettings
from hansa.crypto import sealing

KEY = sealing.generate_opening_key()


class Killed(BaseException):
    """Stands for kill -9: no program code handles it."""


def assignment(**changes: object) -> Assignment:
    fields = {
        "role": "client",
        "federation": "fed",
        "seed": 7,
        "model": ModelSource(),
        "adapter": Adapter(),
        "round": 3,
        "start": StartAdapter(),
        "settings": RoundSettings(aggregation=Aggregation(seal_to=KEY.public)),
        "storage": S3(bucket="shared", prefix="fed"),
        "experience_storage": S3(bucket="own", prefix="mine"),
        "environments": ["maze"],
        "environment": "maze",
        "world": "maze",
    }
    return Assignment.model_validate({**fields, **changes})
