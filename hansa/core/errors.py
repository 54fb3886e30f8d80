"""Errors a user can act on: one sentence, a hint, and the exit code they end a program with.

HansaError
├── InputError          a manifest, option or file is wrong (exit 2 on the command line)
├── PermanentError      this assignment can never work (exit 42)
│   ├── AnotherRun      the prefix holds a different run
│   ├── Untrusted       a letter or a key is not of whom it says (exit 48)
│   │   └── LogReplaced an order that was read once is gone, or is another one now
│   ├── OrderRefused    the silo's limits do not allow the order (exit 47)
│   ├── PluginMissing   no package here offers what the spec names (exit 49)
│   └── BudgetSpent     the silo would give away more of a record than it may (exit 51)
├── TooFewUpdates       the gate left fewer updates than the round needs (exit 43)
├── MaskAgain           a silo dropped out of a masked sum: the others mask again (exit 52)
├── MaskedUpdateMissing a silo claimed its place in a masked sum, and sent nothing yet (exit 1)
├── WorldBroken         the world or the endpoint failed in too many episodes (exit 45)
├── Diverged            the training's loss is no number any more (exit 46)
├── TrackerUnreachable  an experiment tracker did not answer (exit 50)
├── HubAway             a model hub or a registry did not answer (exit 1)
└── StoreError
    ├── NotFound        no such object
    ├── Denied          the credentials may not do this
    │   └── ClockSkewed the clocks of this machine and the store differ too much
    ├── Precondition    the object exists already
    ├── Corrupt         stored bytes are not what their manifest says
    │   ├── Garbled     a document is too long, or not of its kind
    │   └── Unopened    it is not sealed, or not as it was sealed
    │       └── KeyMissing  it is sealed to a key that is not at hand
    └── Unreachable     the store did not answer in time (exit 44)
"""

from hansa.core.exits import Exit


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
    """The prefix holds results of another run; going on would mix two federations."""


class Untrusted(PermanentError):
    """A letter or a signing key is not of whom it says."""

    exit = Exit.UNTRUSTED


class LogReplaced(Untrusted):
    """An order that was read once is gone, or another one: the bucket was made anew, or lies."""


class OrderRefused(PermanentError):
    """The silo's limits do not allow what an order asks for; nothing was loaded."""

    exit = Exit.REFUSED


class PluginMissing(PermanentError):
    """No package of this image offers a strategy, learner or world of that name, or it is broken.

    The message goes to the status: it has names of packages and modules, and nothing that is data.
    """

    exit = Exit.PLUGIN_MISSING


class BudgetSpent(PermanentError):
    """Going on would give away more of one record than the silo may; nothing was sent."""

    exit = Exit.BUDGET_SPENT


class TooFewUpdates(HansaError):
    """The gate left fewer updates than the round needs."""

    exit = Exit.TOO_FEW_UPDATES


class MaskAgain(HansaError):
    """A silo dropped out of a masked sum: those that are left mask again without it."""

    exit = Exit.MASK_AGAIN


class MaskedUpdateMissing(HansaError):
    """A silo has claimed its place in a masked sum, and what it sends is not there yet.

    It may be on its way: only a claim that comes too late can be shut out.
    """


class WorldBroken(HansaError):
    """The world or the endpoint failed in too many episodes; what it plays on may be back later.

    The message never holds text of an episode, or an exception's own: it goes to the status.
    """

    exit = Exit.WORLD_BROKEN


class Diverged(HansaError):
    """Training left all bounds: what it made is worth nothing, and is not sent.

    The start adapter and the experience stay as they are, so a better setting goes on from there.
    """

    exit = Exit.TRAINING_DIVERGED

    @classmethod
    def at(cls, step: int, steps: int, what: str, rate: float) -> "Diverged":
        """The error of a step, which names the field to change."""
        return cls(
            f"spec.training.learningRate: got {rate}, with which training diverged "
            f"({what} in step {step} of {steps}), expected a smaller one"
        )


class TrackerUnreachable(HansaError):
    """An experiment tracker did not answer; it may be back later, and nothing is lost."""

    exit = Exit.TRACKER_FAILED


class HubAway(HansaError):
    """A model hub or a registry did not answer; the same command goes on where it was."""


class StoreError(HansaError):
    """The object store refused or failed."""


class NotFound(StoreError):
    """There is no object under that key."""


class Denied(StoreError):
    """The credentials may not do this; a wrong policy does not heal by itself."""

    exit = Exit.PERMANENT


class ClockSkewed(Denied):
    """The store refuses what is signed so much earlier or later than its own clock says."""


class Precondition(StoreError):
    """The object exists already, so a conditional write was refused."""


class Corrupt(StoreError):
    """Stored bytes are not what their manifest says."""

    exit = Exit.PERMANENT


class Garbled(Corrupt):
    """A document is too long, or not of its kind."""


class Unopened(Corrupt):
    """An object that is to be sealed is not, or is not as it was sealed."""


class KeyMissing(Unopened):
    """An object is sealed to a key that is not at hand."""


class Unreachable(StoreError):
    """The store did not answer within the retries; it may be back later."""

    exit = Exit.STORAGE_UNREACHABLE
