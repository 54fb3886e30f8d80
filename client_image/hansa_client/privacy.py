"""A silo's privacy: its budget, its ledger, and random numbers that nobody else can draw.

The spec's seed is public, so noise drawn from it would protect nothing. Each release has a key in
the silo's private store, written once: after a crash the same noise is drawn again, and whoever
deletes an update gets the same bytes once more, never a second sample to average.
"""

import hashlib
import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hansa.api import bucket_keys, privacy_ledger
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import Figures, canonical, fingerprint
from hansa.api.privacy import Privacy, PrivacyStatement
from hansa.api.privacy_checks import check_fits
from hansa.api.privacy_ledger import Budget, LedgerEntry, Purpose
from hansa.core.errors import BudgetSpent, Corrupt, Denied, OrderRefused, PermanentError
from hansa.store.base import ObjectStore, get_if_present, put_once
from hansa.store.documents import parse

SECRET_BYTES = 32
_LABEL = "hansa/privacy/1"


class Stream:
    """Random numbers of one release: a key that stays in the silo, and what it is used for.

    SHAKE-256 of both is a pseudorandom function, so other inputs have unrelated numbers.
    """

    def __init__(self, secret: bytes, *context: str) -> None:
        text = canonical({"label": _LABEL, "context": list(context)})
        self._root = hmac.digest(secret, text, "sha256")

    def draw_uniforms(self, purpose: str, count: int) -> NDArray[np.float64]:
        """Numbers above 0 and up to 1, of 53 bits."""
        data = hashlib.shake_256(self._root + purpose.encode()).digest(8 * count)
        whole = np.frombuffer(data, dtype="<u8") >> np.uint64(11)
        return (whole.astype(np.float64) + 0.5) * 2.0**-53

    def draw_normals(self, purpose: str, count: int) -> NDArray[np.float64]:
        """Numbers of the standard normal distribution, by Box and Muller."""
        half = (count + 1) // 2
        drawn = self.draw_uniforms(purpose, 2 * half)
        length, angle = np.sqrt(-2.0 * np.log(drawn[:half])), 2.0 * np.pi * drawn[half:]
        return np.concatenate([length * np.cos(angle), length * np.sin(angle)])[:count]


def open_ledger(store: ObjectStore, assignment: Assignment) -> "Ledger | None":
    """The ledger of a silo with privacy; refused where its owner asks for it and the spec does not.

    Before anything is loaded, played or sent. The owner's budget is in the private store: a silo
    without one has none, and neither has one whose owner lets it read nothing there.
    """
    privacy = assignment.settings.privacy
    if privacy is None and assignment.experience_storage is None:
        return None
    key = bucket_keys.privacy_budget(assignment.environment)
    try:
        data = get_if_present(store, key)
    except Denied:
        if privacy is not None:
            raise
        data = None
    own = parse(Budget, key, data) if data is not None else None
    if privacy is None:
        if own:
            raise OrderRefused(
                f"this silo's {key} allows an epsilon of {own.epsilon:g}, and "
                "the federation has no spec.privacy; nothing was loaded"
            )
        return None
    if assignment.experience_storage is None:
        raise PermanentError(
            "experienceStorage: got nothing, expected a private store, since spec.privacy keeps "
            "trajectories and keys there"
        )
    if assignment.alone_rounds:
        raise PermanentError(
            f"aloneRounds: got {assignment.alone_rounds}, expected 0 with privacy: each figure is "
            "paid for"
        )
    try:
        check_fits(privacy, assignment.settings, assignment.adapter)
    except ValueError as error:
        raise PermanentError(f"settings.{error}") from None
    if own and own.unit == "task" and privacy.unit == "trajectory":
        raise OrderRefused(
            f"this silo's {key} protects tasks, and spec.privacy.unit is "
            "trajectory; nothing was loaded"
        )
    return Ledger(store, assignment, privacy, own)


class Ledger:
    """What one silo has spent of its privacy budgets, and what is left."""

    def __init__(
        self, store: ObjectStore, assignment: Assignment, privacy: Privacy, own: Budget | None
    ) -> None:
        self._store = store
        self._assignment = assignment
        self._privacy = privacy
        self._own = own
        self._delta = min(privacy.delta, own.delta) if own else privacy.delta

    def check_budget(self, *, trains: bool, evaluates: bool) -> None:
        """Raise BudgetSpent when the releases of this Job would exceed the budget.

        The spec's budget is for this run, and the owner's for all runs of the silo.
        """
        new = [self.make_entry("training", self._assignment.round)] if trains else []
        if evaluates:
            new.append(self.make_entry("evaluation", self._assignment.start.round))
        paid = self._read_all()
        names = {entry.name for entry in paid}
        if not (unpaid := [entry for entry in new if entry.name not in names]):
            return
        budgets = [(self._own.epsilon, [*paid, *unpaid])] if self._own else []
        budgets.append((self._privacy.epsilon, [*self._select_own_run(paid), *unpaid]))
        for most, entries in budgets:
            after = privacy_ledger.epsilon(entries, self._delta)
            if after > most:
                raise BudgetSpent(
                    f"spec.privacy.epsilon: got {most:g} as this silo's budget, and round "
                    f"{self._assignment.round} would make it {after:.4g} at a delta of "
                    f"{self._delta:g}: nothing was sent, and the silo is left out",
                    hint="what was given away stays given away; a larger budget is the owner's "
                    "choice",
                )

    def pay(self, purpose: Purpose, round_: int, *data: str) -> tuple[Stream, LedgerEntry]:
        """Write a release into the ledger, its key first; its random numbers, and the entry.

        From here on it counts, whether anything leaves the silo or not. `data` are digests of what
        is released: other data get other random numbers.
        """
        own = self.make_entry(purpose, round_)
        key = bucket_keys.privacy_secret(own.environment, own.name)
        secret = put_once(self._store, key, os.urandom(SECRET_BYTES))
        if len(secret) != SECRET_BYTES:
            raise Corrupt(f"{key}: got {len(secret)} bytes, expected {SECRET_BYTES}")
        before = [entry for entry in self.read_entries() if entry.name != own.name]
        spent = privacy_ledger.epsilon(
            [*(e for e in before if e.purpose == purpose), own], self._delta
        )
        own = own.model_copy(update={"epsilon": spent})
        place = bucket_keys.privacy_entry(own.environment, own.name)
        stored = parse(LedgerEntry, place, put_once(self._store, place, canonical(own.to_json())))
        if purpose == "training" and stored.costs != own.costs:
            raise PermanentError(f"{place}: got an entry of other settings than this round's")
        return Stream(secret, own.purpose, own.fingerprint, *data), stored

    def make_noisy_counts(self) -> "NoisyCounts":
        """Pay for releasing how the start adapter did on held-out tasks."""
        stream, paid = self.pay("evaluation", self._assignment.start.round)
        samples = self._assignment.settings.evaluation.samples_per_task
        return NoisyCounts(stream, paid.noise_multiplier, samples)

    def read_entries(self) -> list[LedgerEntry]:
        """All releases of this run so far."""
        return self._select_own_run(self._read_all())

    def _select_own_run(self, entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
        prefix = self._assignment.private_storage.prefix
        return [entry for entry in entries if entry.prefix == prefix]

    def _read_all(self) -> list[LedgerEntry]:
        """All releases of the silo so far, all of the same unit."""
        name = self._assignment.environment
        budget = bucket_keys.privacy_budget(name)
        names = [
            key
            for key in self._store.list(bucket_keys.privacy_root(name))
            if key.endswith(".json") and key != budget
        ]
        entries = [parse(LedgerEntry, key, self._store.get(key)) for key in names]
        for entry in entries:
            if entry.unit != self._privacy.unit:
                raise PermanentError(
                    f"spec.privacy.unit: got {self._privacy.unit}, and this silo's ledger has "
                    f"{entry.unit} in round {entry.round}, expected {entry.unit}"
                )
        return entries

    @property
    def epsilon(self) -> float:
        """The privacy that one unit has lost so far."""
        return privacy_ledger.epsilon(self.read_entries(), self._delta)

    def make_statement(self) -> PrivacyStatement:
        """The privacy statement in the manifest of this round's update."""
        own, entries = self.make_entry("training", self._assignment.round), self.read_entries()
        return PrivacyStatement(
            unit=own.unit,
            epsilon=privacy_ledger.epsilon(entries, self._delta),
            delta=self._delta,
            noise_multiplier=own.noise_multiplier,
            clip_norm=self._privacy.clip_norm,
            sampling_rate=own.sampling_rate,
            steps=own.steps,
            rounds=sum(entry.purpose == "training" for entry in entries),
        )

    def make_entry(self, purpose: Purpose, round_: int) -> LedgerEntry:
        """A release with this round's settings; its epsilon is not known yet."""
        assignment, privacy = self._assignment, self._privacy
        is_training = purpose == "training"
        if privacy.noise_multiplier is None:
            raise PermanentError("settings.privacy.noiseMultiplier: got nothing, expected a number")
        inputs = assignment.inputs() if is_training else assignment.evaluation_inputs()
        return LedgerEntry(
            prefix=assignment.private_storage.prefix,
            environment=assignment.environment,
            joint=assignment.demonstrations_from is not None,
            purpose=purpose,
            round=round_,
            fingerprint=fingerprint({**inputs, "adapter_sha256": assignment.start.sha256}),
            unit=privacy.unit,
            sampling_rate=privacy.sampling_rate if is_training else 1.0,
            noise_multiplier=privacy.noise_multiplier if is_training else privacy.evaluation_noise,
            clip_norm=privacy.clip_norm if is_training else None,
            steps=max(1, assignment.settings.training.max_steps) if is_training else 1,
            epsilon=0.0,
            delta=self._delta,
        )


@dataclass(frozen=True)
class NoisyCounts:
    """What is released of held-out tasks: their number, and successes with noise."""

    stream: Stream
    """Random numbers of this release."""
    noise: float
    """In tasks."""
    samples: int
    """Episodes of each task."""

    def add_noise(self, split: str, successes: int, planned: int) -> Figures:
        """Successes with noise, whole and within what is possible, of the episodes planned.

        Another question, or another number of successes, has other noise, so no difference of two
        answers cancels it.
        """
        question = f"{split}/{planned}/{self.samples}/{successes}"
        drawn = float(self.stream.draw_normals(question, 1)[0])
        shown = round(successes + self.noise * self.samples * drawn)
        return Figures(episodes=planned, successes=min(max(shown, 0), planned))


def compute_divisor(privacy: Privacy, assignment: Assignment) -> float:
    """What a step's sum is divided by: the expected units of a step, if all possible ones exist.

    It is public: nothing in it depends on what was explored.
    """
    settings = assignment.settings
    slots = privacy.slots(
        settings.exploration,
        settings.experience,
        assignment.demonstrations_wanted,
        assignment.round,
    )
    return privacy.sampling_rate * slots
