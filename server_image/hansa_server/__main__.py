"""hansa-server: aggregates one round as its assignment says, reports, and ends."""

import sys

from hansa import logs, program
from hansa.assignment import AggregatorReport, Assignment
from hansa.store.s3 import S3Store
from hansa_server.round import aggregate

PROGRAM = "server"
USAGE = """usage: hansa-server [--warm]

Aggregates the round that HANSA_ASSIGNMENT describes; `hansa run` and the operator start it.
--warm waits for assignments on standard input and forks a process for each, for local runs.
"""


def work(assignment: Assignment) -> AggregatorReport:
    """The assignment's round, in its own object store."""
    return aggregate(assignment, S3Store(assignment.storage), logs.get(PROGRAM))


def main() -> int:
    """Entry point of `hansa-server`."""
    return program.main(USAGE, lambda: program.run(PROGRAM, work))


if __name__ == "__main__":
    sys.exit(main())
