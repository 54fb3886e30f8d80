"""Exit codes of the programs: whether a retry can help, and one sentence of help for each."""

from dataclasses import dataclass
from enum import IntEnum

SIGNAL_BASE = 128
"""A process that a signal ended exits with this plus the signal's number."""


class Exit(IntEnum):
    """What a program's exit code means; the same numbers in a Job, a process and the docs."""

    DONE = 0
    CRASHED = 1
    BAD_INPUT = 2
    PERMANENT = 42
    TOO_FEW_UPDATES = 43
    STORAGE_UNREACHABLE = 44
    WORLD_BROKEN = 45
    TRAINING_DIVERGED = 46
    REFUSED = 47
    UNTRUSTED = 48
    PLUGIN_MISSING = 49
    TRACKER_FAILED = 50
    BUDGET_SPENT = 51
    MASK_AGAIN = 52


@dataclass(frozen=True, kw_only=True)
class ExitFacts:
    """How an executor and a reader treat one exit."""

    help: str
    """One sentence: what it means and what to do."""
    retriable: bool = False
    """Whether running the same Job again can end differently."""
    counted: bool = True
    """Whether the failure counts against participation.retries."""


FACTS: dict[Exit, ExitFacts] = {
    Exit.DONE: ExitFacts(help="the Job did its work", counted=False),
    Exit.CRASHED: ExitFacts(help="the program crashed: its log has the traceback", retriable=True),
    Exit.BAD_INPUT: ExitFacts(help="the command line or manifest is wrong"),
    Exit.PERMANENT: ExitFacts(
        help="the specification cannot work as it is: the Job's log says what to change"
    ),
    Exit.TOO_FEW_UPDATES: ExitFacts(
        help="too few updates passed the gate: the aggregator's log names each refusal"
    ),
    Exit.STORAGE_UNREACHABLE: ExitFacts(
        retriable=True,
        counted=False,
        help="the object store did not answer: the Job is retried until the round's deadline",
    ),
    Exit.WORLD_BROKEN: ExitFacts(
        retriable=True,  # a server that the world plays on may be back; a bug only costs retries
        help="the world or the endpoint failed in too many episodes: the Job's log says where",
    ),
    Exit.TRAINING_DIVERGED: ExitFacts(
        # Not retriable: the same seed and data diverge at the same step.
        help="the training's loss left all bounds: nothing was sent, lower the learning rate"
    ),
    Exit.REFUSED: ExitFacts(help="the silo's limits do not allow the order: nothing was loaded"),
    Exit.UNTRUSTED: ExitFacts(
        help="a letter or a key is not of whom it says: compare publicKeys on both sides"
    ),
    Exit.PLUGIN_MISSING: ExitFacts(
        help="the image lacks a plug-in that the spec names: build one with its package in it"
    ),
    Exit.TRACKER_FAILED: ExitFacts(
        retriable=True, help="the experiment tracker did not answer: export again, or with --follow"
    ),
    Exit.BUDGET_SPENT: ExitFacts(
        # Not retriable: what was spent stays spent.
        help="the silo's privacy budget is spent: nothing was sent, and the others continue"
    ),
    Exit.MASK_AGAIN: ExitFacts(
        # Not retriable alone: the plan lets the others mask again, then runs the next one.
        counted=False,
        help="a silo dropped out of the round: the others mask their updates again without it",
    ),
}


def is_work_failure(code: int | None) -> bool:
    """Whether a program failed in its work: not before it began, nor because of the store."""
    elsewhere = (Exit.DONE, Exit.BAD_INPUT, Exit.PERMANENT, Exit.STORAGE_UNREACHABLE)
    return code not in (None, *elsewhere, Exit.PLUGIN_MISSING, Exit.BUDGET_SPENT)


def get_facts(code: int | None) -> ExitFacts:
    """Facts of any exit code; unknown codes and signals count as crashes, worth a retry."""
    return FACTS[Exit(code) if code in FACTS else Exit.CRASHED]


def describe_failure(code: int | None) -> str:
    """What a coordinator says of a remote silo whose Job ended so; it learns no more of it."""
    return f"gave up: {get_facts(code).help}"
