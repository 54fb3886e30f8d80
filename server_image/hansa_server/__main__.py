"""hansa-server: aggregates one round as its assignment says, reports, and ends."""

import os
import sys
from functools import partial

from hansa.api.assignment import AggregatorReport, Assignment
from hansa.core import logs
from hansa.runtime import program
from hansa.store.s3 import S3Store
from hansa.store.sealed import open_unsealing_store, read_aggregator_keys
from hansa_server.round import aggregate

PROGRAM = "server"
USAGE = """usage: hansa-server [--warm]

Aggregates the round that HANSA_ASSIGNMENT describes; `hansa run` and the operator start it.
--warm waits for assignments on standard input and forks a process for each, for local runs.
"""


def work(assignment: Assignment) -> AggregatorReport:
    """The assignment's round, in its own object store."""
    opening = partial(read_aggregator_keys, os.environ)
    store = open_unsealing_store(S3Store(assignment.storage), assignment, opening)
    return aggregate(assignment, store, logs.get(PROGRAM))


def main() -> int:
    """Entry point of `hansa-server`."""
    return program.main(USAGE, lambda: program.run_assignment(PROGRAM, work))


if __name__ == "__main__":
    sys.exit(main())
