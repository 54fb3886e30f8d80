"""The members of a round: their offers, the checks on them, and their files once they passed."""

import json
import statistics
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from hansa.adapter import lora
from hansa.adapter import second_moments as moments_of
from hansa.adapter.tensor_file import Shapes, TensorFile, data_size, most_head
from hansa.api import bucket_keys
from hansa.api.assignment import AggregatorReport, Assignment
from hansa.api.bucket_documents import Member, sha256
from hansa.api.spec import Aggregation
from hansa.core.errors import NotFound, TooFewUpdates, Unopened
from hansa.core.logs import Log
from hansa.runtime.capacity import usable_cores
from hansa.store.base import ObjectStore
from hansa_server import gate, measure, moments, scratch
from hansa_server.gate import OfferedUpdate, RefusalReason, UpdateRefused
from hansa_server.merge import Parts
from hansa_server.merge_input import Update


def parallel(cores: int) -> int:
    """Requests to the store at a time; more than the cores can follow only hold each other up.

    Sixteen cores were no faster with more than eight.
    """
    return min(8, 2 * cores)


PARALLEL = parallel(usable_cores())
"""Those of this machine."""

UNKNOWN_HEAD = 2 * 2**20
"""Bytes of a header at most while nobody knows the shapes: room for some 20,000 tensors."""
FEWEST_COMPARED = 3
"""Members from which on one may be too far from the median: of two, neither is the odd one."""

_T = TypeVar("_T")


class TooFewMembers(TooFewUpdates):
    """Too few updates passed; carries the report that tells the executor whose did not, and why."""

    def __init__(self, message: str, report: AggregatorReport) -> None:
        super().__init__(message, hint="the log has one line for each update that was refused")
        self.report = report


class Members:
    """The updates that an assignment names; each step reads more of them and may refuse some."""

    def __init__(self, store: ObjectStore, assignment: Assignment, log: Log) -> None:
        self._store = store
        self._assignment = assignment
        self._log = log
        self._files: dict[str, TensorFile] = {}
        self._norms: dict[str, float] = {}
        self._moments: dict[str, TensorFile] = {}
        self._half = assignment.settings.aggregation.half(assignment.round)
        self.offers: dict[str, OfferedUpdate] = {}
        """Members that no check has refused so far, sorted by environment."""
        self.refused: dict[str, RefusalReason] = {}
        """Members that were, with the reason."""

    def read_manifests(self) -> None:
        """Learn what each member offers; nothing large is read yet."""
        members = sorted(self._assignment.members, key=lambda member: member.environment)
        named = {member.environment: member for member in members}
        with ThreadPoolExecutor(PARALLEL) as pool:
            self.offers = self._each(pool, named, lambda name: self._offer(named[name]))
        self.require_enough()

    def agree_on_base_model(self, known: str | None) -> str:
        """The run's base model: as the spec or an earlier round has it, or as most members do."""
        digests = {name: offer.manifest.base_model for name, offer in self.offers.items()}
        pinned = self._assignment.model.sha256
        expected = pinned or known or self._majority("base model", digests, "spec.model.sha256")
        for environment, offer in list(self.offers.items()):
            with self._gated(environment):
                gate.check_base_model(offer, expected)
        self.require_enough()
        return expected

    def agree_on_shapes(self) -> Shapes:
        """The adapter's shapes where no global adapter tells them: as the spec names them, or what
        most headers say."""
        with ThreadPoolExecutor(PARALLEL) as pool:
            read = self._each(pool, self.offers, lambda name: self._read_shapes(self.offers[name]))
        self.require_enough()
        digests = {name: lora.shapes_digest(shapes) for name, shapes in read.items()}
        pinned = self._assignment.adapter.shapes
        remedy = "a new federation with spec.adapter.shapes"
        agreed = pinned or self._majority("shapes of the adapter", digests, remedy)
        for name, digest in digests.items() if pinned else ():
            with self._gated(name):
                gate.check_pinned_shapes(digest, agreed)
        self.require_enough()
        return next(shapes for name, shapes in read.items() if digests[name] == agreed)

    def fetch(self, shapes: Shapes | None, prepare: Callable[[], Parts], folder: Path) -> Parts:
        """Copy every update into the folder, in parallel, and check what is in it.

        The start adapter is prepared beside them, for only a copy has to be compared with it; its
        parts are returned. No file is copied that is larger than `shapes` need; where they are not
        known, all wait for the start's.
        """
        with ThreadPoolExecutor(PARALLEL) as pool:
            ready = pool.submit(prepare)  # first: whoever waits for it holds a thread
            known = shapes or ready.result()[0].shapes
            head = most_head(known)

            def work(name: str) -> tuple[TensorFile, float]:
                offer, path = self.offers[name], folder / f"{name}.safetensors"
                gate.check_size(offer.entry, offer.entry.size, data_size(known) + head)
                glance = scratch.copy(self._store, self._adapter_key(offer), offer.entry, path)
                return self._examine(path, ready, glance, head)

            for name, (file, norm) in self._each(pool, self.offers, work).items():
                self._files[name], self._norms[name] = file, norm
        parts = ready.result()  # without a start no update is to blame for the round's end
        self.require_enough()
        self._check_norms()
        if self._assignment.settings.aggregation.needs_moments:
            self._fetch_moments(parts[0].shapes, folder)
        return parts

    def _fetch_moments(self, shapes: Shapes, folder: Path) -> None:
        """Copy the moments of those whose updates count; most must agree on who reads what."""
        rank = self._assignment.settings.aggregation.moments_rank
        widths, head = moments_of.widths(shapes), 2 * most_head(shapes)
        limit = moments_of.most_bytes(widths, rank) + head

        def work(name: str) -> TensorFile:
            entry, path = self.offers[name].manifest.files[bucket_keys.MOMENTS], folder / name
            gate.check_size(entry, entry.size, limit)
            glance = scratch.copy(
                self._store, self._folder(name) + bucket_keys.MOMENTS, entry, path
            )
            try:
                return moments.open_checked(path, widths, rank, glance.is_finite, head)
            finally:
                path.unlink()

        with ThreadPoolExecutor(PARALLEL) as pool:
            self._moments = self._each(pool, list(self.offers), work)
        self.require_enough()
        heads = {
            name: sha256(json.dumps(file.shapes).encode()) for name, file in self._moments.items()
        }
        usual = self._majority("inputs of the layers", heads, "the same base model everywhere")
        for name, digest in heads.items():
            with self._gated(name):
                gate.check_inputs(digest == usual)
        self.require_enough()

    def _majority(self, what: str, answers: dict[str, str], remedy: str) -> str:
        """What more than half of the members say; else the round ends with all answers.

        A tie that went to whoever comes first would let one of two evict the other for good.
        """
        agreed = gate.majority(answers.values())
        if agreed is not None:
            return agreed
        listed = ", ".join(f"{name} has {answer}" for name, answer in list(answers.items())[:8])
        raise self._too_few(
            f"{what}: {listed}; expected more than half of the members to have the same, "
            f"or {remedy}"
        )

    def _check_norms(self) -> None:
        """Refuse updates that moved too far, by the spec's bound and then by the others' median."""
        settings = self._assignment.settings.aggregation
        for name in list(self.offers):
            with self._gated(name):
                gate.check_norm(self._norms[name], settings.max_update_norm)
        self.require_enough()
        if len(self.offers) < FEWEST_COMPARED:
            return
        moving = [norm for name in self.offers if (norm := self._norms[name])]
        median = statistics.median_low(moving) if moving else 0.0
        for name in list(self.offers):
            with self._gated(name):
                gate.check_norm_ratio(self._norms[name], median, settings.max_norm_ratio)
        self.require_enough()

    def updates(self) -> list[Update]:
        """What is merged, sorted by environment."""
        settings = self._assignment.settings.aggregation
        weights = _weights(settings, self.offers.values())
        for (name, offer), weight in zip(self.offers.items(), weights, strict=True):
            claimed = _claim(settings, offer)
            if settings.strategy == "weighted-mean" and weight < claimed:
                self._log.warning(
                    "weight_capped",
                    environment=name,
                    claimed=int(claimed),
                    counted=round(weight),
                    message="it says that it has far more than the others, and counts less; where "
                    "you trust that, raise aggregation.maxWeightRatio",
                )
        return [
            Update(
                environment=name,
                file=self._files[name],
                weight=weight,
                norm=self._norms[name],
                moments=self._moments.get(name),
            )
            for name, weight in zip(self.offers, weights, strict=True)
        ]

    def close(self) -> None:
        """Give the files back."""
        for file in (*self._files.values(), *self._moments.values()):
            file.close()

    def require_enough(self) -> None:
        """End the round when too few members are left, naming each refusal."""
        if len(self.offers) >= self._assignment.minimum:
            return
        named = ", ".join(f"{name} ({reason})" for name, reason in sorted(self.refused.items()))
        raise self._too_few(
            f"{len(self.offers)} of {len(self._assignment.members)} updates passed the gate, "
            f"expected {self._assignment.minimum} or more; refused: {named or 'none'}"
        )

    def _too_few(self, why: str) -> TooFewMembers:
        return TooFewMembers(
            why,
            AggregatorReport(
                round=self._assignment.round,
                manifest="",
                adapter="",
                bytes=0,
                members=[],
                refused=self.refused_by_index(),
            ),
        )

    def refused_by_index(self) -> list[tuple[int, str]]:
        """Refusals as reports carry them."""
        names = self._assignment.environments
        return sorted(
            (names.index(name), str(reason))
            for name, reason in self.refused.items()
            if name in names  # a silo of a masked sum may have left since
        )

    def _each(
        self, pool: ThreadPoolExecutor, names: Iterable[str], work: Callable[[str], _T]
    ) -> dict[str, _T]:
        """Work on many members at a time; refusals are noted in the order of their names."""
        done: dict[str, _T] = {}
        futures = {name: pool.submit(work, name) for name in names}
        try:
            for name, future in futures.items():
                with self._gated(name):
                    done[name] = future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return done

    @contextmanager
    def _gated(self, environment: str) -> Iterator[None]:
        try:
            yield
        except UpdateRefused as refused:
            self.offers.pop(environment, None)
            self.refused[environment] = refused.reason
            self._log.warning(
                "update_refused",
                environment=environment,
                reason=refused.reason,
                message=gate.HELP[refused.reason],
                detail=refused.detail,
            )

    def _offer(self, member: Member) -> OfferedUpdate:
        """A range holds all of a manifest that may be read, and takes one request instead of two.

        No checksum of the store covers a range: bytes of another digest are read once more, by the
        verb that verifies them, before an honest member is refused for a bit flipped on the way.
        """
        key = gate.manifest_key(self._assignment, member.environment)
        try:
            data = self._store.get_range(key, 0, gate.MAX_MANIFEST + 1)
            gate.check_manifest_size(len(data))
            if sha256(data) != member.manifest:
                data = self._store.get(key)
        except NotFound:
            raise UpdateRefused("manifest-missing") from None
        return gate.read_manifest(data, member, self._assignment)

    def _read_shapes(self, offer: OfferedUpdate) -> Shapes:
        """By the length that the manifest gives; a file of another one is refused when copied."""
        key = self._adapter_key(offer)
        try:
            head = scratch.read_head(self._store, key, UNKNOWN_HEAD)
            shapes = self._shapes(head, offer)
        except NotFound:
            raise UpdateRefused("file-missing", key) from None
        except Unopened as error:
            raise UpdateRefused("sealed", error.message) from None
        except lora.AdapterError as error:
            raise gate.refusal(error) from None
        gate.check_shapes(shapes, self._assignment)
        return shapes

    def _shapes(self, head: bytes, offer: OfferedUpdate) -> Shapes:
        return lora.shapes(head, offer.entry.size)

    def _examine(
        self, path: Path, ready: Future[Parts], glance: scratch.Glance, head: int
    ) -> tuple[TensorFile, float]:
        file = gate.open_update(path, head)
        path.unlink()  # an open file stays readable, and a kill leaves nothing behind
        try:
            start, _ = ready.result()
            if file.layout is not start.layout:  # as a rule it is, for equal heads are read once
                gate.check_shapes(file.shapes, self._assignment)
                gate.check_same_shapes(file.shapes, start.shapes)
            gate.check_finite(glance.is_finite)
            gate.check_bounded(glance.is_bounded)
            gate.check_half(self._half, measure.changed_half(file, start, self._half))
            if self._assignment.settings.aggregation.merges_factors(self._assignment.round):
                gate.check_turned(measure.turned(file, start))
            norm = measure.distance(file, start)
        except BaseException:
            file.close()
            raise
        return file, norm

    def _adapter_key(self, offer: OfferedUpdate) -> str:
        return self._folder(offer.member.environment) + offer.file

    def _folder(self, environment: str) -> str:
        prefix = self._assignment.storage.prefix
        return bucket_keys.update_folder(prefix, environment, self._assignment.round)


def _claim(settings: Aggregation, offer: OfferedUpdate) -> float:
    """What a member says that it has of what members are weighed by."""
    counts = offer.manifest.counts
    return float(counts.kept if settings.weight_by == "examples" else counts.succeeded)


def _weights(settings: Aggregation, offers: Iterable[OfferedUpdate]) -> list[float]:
    """What each member counts; when none has anything to weigh, all count alike.

    Counts are what members say of themselves: one counts at most maxWeightRatio times the median
    of those that have any (of two, the lower), so that no claim takes the whole mean.
    """
    claims = [_claim(settings, offer) for offer in offers]
    known = [claim for claim in claims if claim]
    if settings.strategy != "weighted-mean" or not known:
        return [1.0] * len(claims)
    most = settings.max_weight_ratio * statistics.median_low(known)
    return [min(claim, most) for claim in claims]
