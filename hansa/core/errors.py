"""Errors a user can act on: one sentence, a hint, and the exit code they end a program with."""

import traceback

from hansa.core.exits import Exit


def describe_bug(error: BaseException) -> str:
    """An unexpected exception in one line: its type, its message, and the line that raised it."""
    text = " ".join(str(error).split())
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return named  # which names its file and line itself
    return f"{named} ({frames[-1].filename}, line {frames[-1].lineno})"


class HansaError(Exception):
    """Base of all errors that carry a sentence for the user instead of a traceback."""

    exit: Exit = Exit.CRASHED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(HansaError):
    """A manifest, option or file is wrong; the message names the field, what came and what fits."""

    exit = Exit.BAD_INPUT


class PermanentError(HansaError):
    """The assignment can never work as it is; retrying it would fail in the same way."""

    exit = Exit.PERMANENT


class AnotherRun(PermanentError):
    """The prefix holds results of another run; continuing would mix two federations."""


class Untrusted(PermanentError):
    """A letter or a signing key does not belong to the party that it names."""

    exit = Exit.UNTRUSTED


class LogReplaced(Untrusted):
    """An order that was read before is missing or changed: the bucket was recreated or altered."""


class OrderRefused(PermanentError):
    """The silo's limits do not allow what an order asks for; nothing was loaded."""

    exit = Exit.REFUSED


class PluginMissing(PermanentError):
    """No package of this image offers a strategy, learner or world of that name, or it is broken.

    The message goes to the status: it has names of packages and modules, and nothing that is data.
    """

    exit = Exit.PLUGIN_MISSING


class BudgetSpent(PermanentError):
    """The privacy budget of a record would be exceeded; nothing was sent."""

    exit = Exit.BUDGET_SPENT


class TooFewUpdates(HansaError):
    """The gate left fewer updates than the round needs."""

    exit = Exit.TOO_FEW_UPDATES


class MaskAgain(HansaError):
    """A silo dropped out of a masked sum: the remaining silos mask again without it."""

    exit = Exit.MASK_AGAIN


class MaskedUpdateMissing(HansaError):
    """A silo has claimed its place in a masked sum, and its update is not there yet.

    It may still arrive: only a silo whose claim comes too late can be left out.
    """


class WorldBroken(HansaError):
    """The world or the endpoint failed in too many episodes; a server may be back later.

    The message never holds text of an episode, or an exception's own: it goes to the status.
    """

    exit = Exit.WORLD_BROKEN


class Diverged(HansaError):
    """Training diverged: its adapter is useless, and is not sent.

    The start adapter and the experience are unchanged, so a retry with other settings can work.
    """

    exit = Exit.TRAINING_DIVERGED

    @classmethod
    def at_step(cls, step: int, steps: int, what: str, rate: float) -> "Diverged":
        """The error of a step, which names the field to change."""
        return cls(
            f"spec.training.learningRate: got {rate}, with which training diverged "
            f"({what} in step {step} of {steps}), expected a smaller one"
        )


class TrackerUnreachable(HansaError):
    """An experiment tracker did not answer; it may be back later, and nothing is lost."""

    exit = Exit.TRACKER_FAILED


class HubUnreachable(HansaError):
    """A model hub or a registry did not answer; running the same command again resumes."""


class StoreError(HansaError):
    """The object store refused or failed."""


class NotFound(StoreError):
    """There is no object under that key."""


class Denied(StoreError):
    """The credentials may not do this; retrying does not fix a wrong policy."""

    exit = Exit.PERMANENT


class ClockSkewed(Denied):
    """The store refuses requests whose time differs too much from its own clock."""


class Precondition(StoreError):
    """The object exists already, so a conditional write was refused."""


class Corrupt(StoreError):
    """Stored bytes are not what their manifest says."""

    exit = Exit.PERMANENT


class InvalidDocument(Corrupt):
    """A document is too long, or is not of the expected kind."""


class UnsealError(Corrupt):
    """An object that should be sealed is not, or was changed after it was sealed."""


class KeyMissing(UnsealError):
    """An object is sealed to a key that this program does not have."""


class Unreachable(StoreError):
    """The store did not answer within the retries; it may be back later."""

    exit = Exit.STORAGE_UNREACHABLE
