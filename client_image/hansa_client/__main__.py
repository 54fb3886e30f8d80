"""hansa-client: executes one assignment, writes its report, and exits.

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
from hansa.store.experience import open_experience_store
from hansa.store.private import open_private
from hansa.store.s3 import S3Store, preload
from hansa.store.sealed import open_sealing_store
from hansa.store.staged import open_staged_store, read_masking_keys

PROGRAM = "client"
SLOW_IMPORTS = (
    "hansa_client.last",
    "torch",
    "hansa_client.decoding.protocol",
    "hansa_client.models.builtin.lora",
    "hansa_client.models.builtin.tokenizer",
    "hansa_client.learners.success_sft",
)
"""What a Job needs and a fork inherits; these imports compute nothing and start no thread."""
LIBRARIES = (
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.llama.modeling_llama",
    "peft",
)
"""What only models that are not builtin need; they take twice as long as all the rest."""

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
    private = open_experience_store(place, assignment, os.environ)
    shared = open_staged_store(
        open_sealing_store(exchange, private, assignment), private, assignment
    )
    keys = partial(read_masking_keys, os.environ)
    silo = Silo(assignment, shared, private, logs.get(PROGRAM), masking_keys=keys)
    play = round.play_round if assignment.role == "client" else last.evaluate_only
    return play(silo)


def run() -> int:
    """Do this process's work, report it, and return the exit code."""
    return program.run_work(PROGRAM, lambda: work(read_assignment()))


def read_assignment() -> Assignment:
    """The assignment in this process's environment, or that of the order that the silo accepted."""
    if os.environ.get(ENV_ORDER):
        from hansa.members.order import load_ordered_assignment  # most clients follow no order

        return load_ordered_assignment(os.environ[ENV_ORDER])
    return program.load_assignment()


def import_slow_modules() -> None:
    """Import what is slow, and nothing more: threads and CUDA would not survive a fork."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # or numpy starts threads on its import
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    preload()


def import_for_job(environ: Mapping[str, str]) -> None:
    """Import what this Job's model and world need as well, once for all later Jobs.

    Errors are ignored here: the Job meets them again and logs them.
    """
    with contextlib.suppress(Exception):
        from hansa_client.models.base_model import is_builtin

        assignment = json.loads(environ[ENV_ASSIGNMENT])
        if not is_builtin(assignment["model"]["source"]):
            for name in LIBRARIES:
                importlib.import_module(name)
        if BABYAI in _find_worlds(assignment):
            from hansa_worlds.babyai import levels

            levels.require_minigrid()


def _find_worlds(assignment: dict[str, Any]) -> set[str]:
    from hansa_worlds import mixed

    parts = mixed.parse_parts(assignment["options"]) if assignment["world"] == mixed.NAME else []
    return {assignment["world"], *(part.world for part in parts)}


def main() -> int:
    """Entry point of `hansa-client`."""
    if sys.argv[1:] == ["--warm"]:
        from hansa.runtime.warm_parent import serve

        import_slow_modules()
        serve(run, import_for_job)
        return 0
    code = run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # all is written; an orderly shutdown of torch would take half a second


if __name__ == "__main__":
    sys.exit(main())
