"""hansa-courier: posts and reads the letters of its assignment, reports, and exits."""

import os
import sys
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from hansa.api.assignment import ENV_ASSIGNMENT
from hansa.api.courier_assignment import ENV_SIGNING_KEY, CourierAssignment, CourierReport
from hansa.api.silo_assignment import SiloCourierAssignment, SiloReport
from hansa.core.errors import PermanentError
from hansa.members import courier
from hansa.members import silo_courier as silos
from hansa.members.courier import load_key
from hansa.runtime import program
from hansa.store.s3 import S3Store
from hansa.validation.messages import describe_first_misfit

PROGRAM = "courier"
USAGE = """usage: hansa-courier [--warm]

Carries the letters that HANSA_ASSIGNMENT describes; `hansa run` and the operator start it.
--warm waits for assignments on standard input and forks a process for each, for local runs.
"""
_TASK: TypeAdapter[CourierAssignment | SiloCourierAssignment] = TypeAdapter(
    Annotated[CourierAssignment | SiloCourierAssignment, Field(discriminator="side")]
)


def work() -> CourierReport | SiloReport:
    """The letters of one assignment: a coordinator's, or a silo's."""
    text = program.read_assignment()
    try:
        task = _TASK.validate_json(text)
    except ValidationError as error:
        raise PermanentError(f"{ENV_ASSIGNMENT}: {describe_first_misfit(error)}") from None
    path = os.environ.get(ENV_SIGNING_KEY, "")
    if not path:
        raise PermanentError(f"{ENV_SIGNING_KEY}: got nothing, expected the file of a signing key")
    key = load_key(path)
    if isinstance(task, CourierAssignment):
        return courier.carry(task, S3Store(task.storage), key)
    return silos.carry(task, S3Store(task.member.storage.s3), key)


def main() -> int:
    """Entry point of `hansa-courier`."""
    return program.main(USAGE, lambda: program.run_work(PROGRAM, work))


if __name__ == "__main__":
    sys.exit(main())
