"""How a run stands or has ended, as a sentence, and what to do about it."""

from hansa.api.status import Federation
from hansa.local.rundir import RunDir
from hansa.plan.policy.quorum import REMEDY


def why(federation: Federation) -> str:
    """The sentence that says what a run does, waits for, or failed of; the remedy is a hint."""
    progressing = next((c for c in federation.status.conditions if c.type == "Progressing"), None)
    return progressing.message.removesuffix(REMEDY) if progressing else federation.status.phase


def after_failure(folder: RunDir) -> str:
    """What to do about a run that has failed."""
    return (
        f"fix that, then `hansa retry --out {folder.path}`, or `hansa run` with other settings; "
        f"`hansa logs --out {folder.path}` has the Jobs' words"
    )
