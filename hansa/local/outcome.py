"""The state of a run in a sentence, and what to do about it."""

from hansa.api.status import Federation
from hansa.local.rundir import RunDir
from hansa.plan.policy.quorum import REMEDY


def explain_phase(federation: Federation) -> str:
    """What a run does, waits for or failed with; the remedy is in the hint."""
    progressing = next((c for c in federation.status.conditions if c.type == "Progressing"), None)
    return progressing.message.removesuffix(REMEDY) if progressing else federation.status.phase


def suggest_fix(folder: RunDir) -> str:
    """What to do about a run that has failed."""
    return (
        f"fix that, then `hansa retry --out {folder.path}`, or `hansa run` with other settings; "
        f"`hansa logs --out {folder.path}` prints the Jobs' logs"
    )
