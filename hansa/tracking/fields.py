"""spec.tracking, and what the status says of it."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from hansa.base import Model
from hansa.storage import SecretKey, SecretName
from hansa.times import Time

MLFLOW = "mlflow"
FILES = ("tensorboard", "wandb")
"""Builtin trackers that write files, and reach no server."""


class Tracking(Model):
    """An experiment tracker that gets the figures of every round, as `hansa export` sends them."""

    to: Annotated[
        str, Field(pattern=r"^[a-z0-9]([-a-z0-9_.]*[a-z0-9])?$", min_length=1, max_length=63)
    ]
    """The tracker: mlflow, tensorboard, wandb, or one that a package in the server's image adds."""
    url: (
        Annotated[str, Field(pattern=r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$", max_length=500)] | None
    ) = None
    """Address of the tracker's server, without a password; mlflow needs it."""
    experiment: (
        Annotated[str, Field(pattern=r"^\S(.*\S)?$", min_length=1, max_length=200)] | None
    ) = None
    """Experiment of MLflow or project of W&B; absent: hansa."""
    credentials_secret: SecretName | None = None
    """Secret with MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN;
    `hansa run` takes these variables from its own environment instead."""
    ca_secret: SecretKey | None = None
    """Certificate authority of the server, where it is not a public one."""
    claim: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """PersistentVolumeClaim for the files of tensorboard and wandb; `hansa run` writes them into
    the folder tracked of the run."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.to == MLFLOW and self.url is None:
            raise ValueError("tracking.url: got nothing, expected the address of the MLflow server")
        if self.to == MLFLOW and self.claim:
            raise ValueError(
                f"tracking.claim: got '{self.claim}', expected none, since mlflow writes no files"
            )
        if self.to in FILES:
            for name, value in self._of_a_server().items():
                if value is not None:
                    raise ValueError(
                        f"tracking.{name}: got a value, expected none, since {self.to} writes files"
                    )
        return self

    def _of_a_server(self) -> dict[str, object]:
        project = self.experiment if self.to == "tensorboard" else None
        return {
            "url": self.url,
            "experiment": project,
            "credentialsSecret": self.credentials_secret,
            "caSecret": self.ca_secret,
        }


class TrackingStatus(Model):
    """How far the tracker is; the federation goes on whatever becomes of it."""

    attempt: Annotated[int, Field(ge=1)] = 1
    """Number of the present Job; it only grows."""
    task: str = ""
    """Digest of what it exports: rounds, their outcomes, and where to."""
    exported: str = ""
    """Digest of what the newest successful one has exported."""
    round: Annotated[int, Field(ge=0)] = 0
    """Newest round that was exported."""
    failures: Annotated[int, Field(ge=0)] = 0
    """How many Jobs have failed with this task."""
    gave_up: Annotated[int, Field(ge=0)] = 0
    """Generation of the spec at which the task was given up; a newer one, or a new round, tries
    again. 0: it was not."""
    not_before: Time | None = None
    """When the present Job may start."""
    message: str = ""
    """Why the last one failed, or the present one does not start."""
