"""hansa-client: plays one environment's round as its assignment says, reports, and ends.

`--warm` is for the local executor: one process imports what is slow to import, and forks itself
for each Job.
"""

import importlib
import os
import sys

from hansa import logs, program
from hansa.assignment import Assignment, ClientReport, EvaluateReport
from hansa.errors import PermanentError
from hansa.store.s3 import S3Store, preload

PROGRAM = "client"
SLOW_IMPORTS = (
    "hansa_client.round",
    "torch",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.llama.modeling_llama",
    "peft",
    "hansa_client.decode",
    "hansa_client.lora",
    "hansa_client.learners.success_sft",
)
"""What a Job needs and a fork inherits; importing these computes nothing and starts no thread."""


def work(assignment: Assignment) -> ClientReport | EvaluateReport:
    """The assignment's round, in its own object stores."""
    from hansa_client.round import Client  # numpy comes with it: `warm` must go first

    if assignment.role == "aggregator":
        raise PermanentError("role: got aggregator, expected client or evaluate")
    exchange = S3Store(assignment.storage)
    private = exchange
    if assignment.experience_storage:
        private = S3Store(assignment.experience_storage, path="experienceStorage.s3")
    client = Client(assignment, exchange, private, logs.get(PROGRAM))
    return client.play_round() if assignment.role == "client" else client.evaluate_only()


def warm() -> None:
    """Import what is slow, and nothing more: threads and CUDA would not survive a fork."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # or numpy starts threads on its import
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    preload()


def main() -> int:
    """Entry point of `hansa-client`."""
    if sys.argv[1:] == ["--warm"]:
        from hansa.local.warm import serve

        warm()
        serve(lambda: program.run(PROGRAM, work))
        return 0
    return program.run(PROGRAM, work)


if __name__ == "__main__":
    sys.exit(main())
