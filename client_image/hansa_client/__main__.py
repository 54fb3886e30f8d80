"""hansa-client: plays one environment's round as its assignment says, reports, and ends.

`--warm` is for the local executor: one process imports what is slow to import, and forks itself
for each Job.
"""

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from hansa.api.assignment import (
    ENV_ASSIGNMENT,
    ENV_ORDER,
    Assignment,
    ClientReport,
    EvaluateReport,
)
from hansa.core import logs
from hansa.core.errors import PermanentError
from hansa.runtime import program
from hansa.store.base import ObjectStore
from hansa.store.experience import experience_store
from hansa.store.private import open_private
from hansa.store.s3 import S3Store, preload
from hansa.store.sealed import sealing_store
from hansa.store.staged import masking_keys, staged_store

PROGRAM = "client"
BUILTIN = "builtin:"
"""Sources of models that need torch alone."""
SLOW_IMPORTS = (
    "hansa_client.last",
    "torch",
    "hansa_client.decoding.protocol",
    "hansa_client.models.builtin.lora",
    "hansa_client.models.builtin.tokenizer",
    "hansa_client.learners.success_sft",
)
"""What a Job needs and a fork inherits; importing these computes nothing and starts no thread."""
LIBRARIES = (
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.llama.modeling_llama",
    "peft",
)
"""What only a model from elsewhere needs beside them; they take twice as long as all the rest."""

BABYAI = "babyai"
"""The builtin world whose package takes a second to import."""


def work(assignment: Assignment) -> ClientReport | EvaluateReport:
    """The assignment's round, in its own object stores."""
    from hansa_client import last, learners, round  # numpy comes with it: `warm` must go first
    from hansa_client.silo import Silo

    if assignment.role == "aggregator":
        raise PermanentError("role: got aggregator, expected client or evaluate")
    if assignment.role == "client":
        learners.check(assignment.settings)  # before an hour of playing
    exchange = S3Store(assignment.storage)
    place: ObjectStore = exchange
    if assignment.experience_storage:
        place = open_private(assignment.experience_storage, assignment.environment, os.environ)
    private = experience_store(place, assignment, os.environ)
    shared = staged_store(sealing_store(exchange, private, assignment), private, assignment)
    keys = partial(masking_keys, os.environ)
    silo = Silo(assignment, shared, private, logs.get(PROGRAM), masking_keys=keys)
    play = round.play_round if assignment.role == "client" else last.evaluate_only
    return play(silo)


def run() -> int:
    """Do this process's work, report it, and return the exit code."""
    return program.run_work(PROGRAM, lambda: work(read_assignment()))


def read_assignment() -> Assignment:
    """This process's own assignment, or that of the order which its silo has accepted."""
    if os.environ.get(ENV_ORDER):
        from hansa.members.order import carried_out  # most clients follow no order

        return carried_out(os.environ[ENV_ORDER])
    return program.assignment()


def warm() -> None:
    """Import what is slow, and nothing more: threads and CUDA would not survive a fork."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # or numpy starts threads on its import
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    preload()


def warm_for(environ: Mapping[str, str]) -> None:
    """Import what this Job's model and world need beside the rest, once for all Jobs to come.

    A library that cannot be imported is the Job's own affair: it says so in its log.
    """
    with contextlib.suppress(Exception):
        assignment = json.loads(environ[ENV_ASSIGNMENT])
        if not assignment["model"]["source"].startswith(BUILTIN):
            for name in LIBRARIES:
                importlib.import_module(name)
        if BABYAI in _worlds(assignment):
            levels = importlib.import_module("hansa_worlds.babyai.levels")
            levels.minigrid()


def _worlds(assignment: dict[str, Any]) -> set[str]:
    from hansa_worlds import mixed

    parts = mixed.parts_of(assignment["options"]) if assignment["world"] == mixed.NAME else []
    return {assignment["world"], *(part.world for part in parts)}


def main() -> int:
    """Entry point of `hansa-client`."""
    if sys.argv[1:] == ["--warm"]:
        from hansa.runtime.warm_parent import serve

        warm()
        serve(run, warm_for)
        return 0
    code = run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # all is written; taking torch down in good order would take half a second


if __name__ == "__main__":
    sys.exit(main())
