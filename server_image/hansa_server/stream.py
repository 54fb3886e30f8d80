"""The members of a round: their manifests, the checks on them, and their files once they passed."""

import json
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from hansa.adapter import lora
from hansa.adapter import second_moments as moments_of
from hansa.adapter.tensor_file import Shapes, TensorFile, data_size, max_head_size
from hansa.api import bucket_keys
from hansa.api.assignment import AggregatorReport, Assignment
from hansa.api.bucket_documents import Member, sha256
from hansa.api.spec import Aggregation
from hansa.api.strategies import RegMeanOptions, WeightedMeanOptions
from hansa.core.errors import NotFound, TooFewUpdates, UnsealError
from hansa.core.logs import Log
from hansa.runtime.capacity import count_usable_cores
from hansa.store.base import ObjectStore
from hansa_server import gate, measure, moments, scratch
from hansa_server.gate import OfferedUpdate, RefusalReason, UpdateRefused
from hansa_server.merge import Parts
from hansa_server.merge_input import Update


def choose_parallelism(cores: int) -> int:
    """Concurrent requests to the store; sixteen cores were no faster with more than eight."""
    return min(8, 2 * cores)


PARALLEL = choose_parallelism(count_usable_cores())
"""Concurrent requests of this machine."""

UNKNOWN_HEAD = 2 * 2**20
"""Maximum bytes of a header while the shapes are unknown: enough for about 20,000 tensors."""
FEWEST_COMPARED = 3
"""Fewest members for a comparison with their median: of two, neither is the outlier."""

_T = TypeVar("_T")


class TooFewMembers(TooFewUpdates):
    """Too few updates passed the gate; the report names the refused ones with their reasons."""

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
        """The reason for each refused member."""

    def read_manifests(self) -> None:
        """Read and check each member's manifest, and no other file."""
        members = sorted(self._assignment.members, key=lambda member: member.environment)
        named = {member.environment: member for member in members}
        with ThreadPoolExecutor(PARALLEL) as pool:
            self.offers = self._map_members(pool, named, lambda name: self._read_offer(named[name]))
        self.require_enough()

    def agree_on_base_model(self, known: str | None) -> str:
        """The run's base model: that of the spec, of an earlier round, or of most members."""
        digests = {name: offer.manifest.base_model for name, offer in self.offers.items()}
        pinned = self._assignment.model.sha256
        expected = (
            pinned or known or self._require_majority("base model", digests, "spec.model.sha256")
        )

        def check(name: str) -> None:
            # A difference of weights means something only on top of the same weights.
            detail = f"got {digests[name]}, expected {expected}"
            gate.require(digests[name] == expected, "base-model", detail)

        self._check_each(digests, check)
        return expected

    def agree_on_shapes(self) -> Shapes:
        """The adapter's shapes in the first round: those of the spec, or of most members."""
        with ThreadPoolExecutor(PARALLEL) as pool:
            read = self._map_members(
                pool, self.offers, lambda name: self._read_shapes(self.offers[name])
            )
        self.require_enough()
        digests = {name: lora.shapes_digest(shapes) for name, shapes in read.items()}
        pinned = self._assignment.adapter.shapes
        remedy = "a new federation with spec.adapter.shapes"
        agreed = pinned or self._require_majority("shapes of the adapter", digests, remedy)

        def check(name: str) -> None:
            detail = f"got shapes of digest {digests[name]}, expected spec.adapter.shapes {agreed}"
            gate.require(digests[name] == agreed, "shape", detail)

        if pinned:  # else whoever has other shapes is refused when its file is compared
            self._check_each(digests, check)
        return next(shapes for name, shapes in read.items() if digests[name] == agreed)

    def fetch(self, shapes: Shapes | None, prepare: Callable[[], Parts], folder: Path) -> Parts:
        """Copy every update into the folder, in parallel, and check what is in it.

        The start adapter is prepared at the same time, and its parts are returned. No file is
        copied that is larger than `shapes` need; unknown shapes are those of the start.
        """
        with ThreadPoolExecutor(PARALLEL) as pool:
            ready = pool.submit(prepare)  # first, since the others wait for it in their threads
            known = shapes or ready.result()[0].shapes
            head = max_head_size(known)

            def work(name: str) -> tuple[TensorFile, float]:
                offer, path = self.offers[name], folder / f"{name}.safetensors"
                gate.check_size(offer.entry, offer.entry.size, data_size(known) + head)
                key, glance = self._get_adapter_key(offer), scratch.ValueCheck()
                scratch.fetch(self._store, key, offer.entry, path, glance)
                return self._examine(path, ready, glance, head)

            for name, (file, norm) in self._map_members(pool, self.offers, work).items():
                self._files[name], self._norms[name] = file, norm
        parts = ready.result()  # an error here is no update's fault
        self.require_enough()
        self._check_norms()
        if self._assignment.settings.aggregation.needs_moments:
            self._fetch_moments(parts[0].shapes, folder)
        return parts

    def _fetch_moments(self, shapes: Shapes, folder: Path) -> None:
        """Copy the remaining members' moments; most must agree on which layers share an input."""
        rank = self._assignment.settings.aggregation.read(RegMeanOptions).moments_rank
        widths, head = moments_of.input_widths(shapes), 2 * max_head_size(shapes)
        limit = moments_of.max_bytes(widths, rank) + head

        def work(name: str) -> TensorFile:
            entry, path = self.offers[name].manifest.files[bucket_keys.MOMENTS], folder / name
            gate.check_size(entry, entry.size, limit)
            key, glance = self._get_folder(name) + bucket_keys.MOMENTS, scratch.ValueCheck()
            scratch.fetch(self._store, key, entry, path, glance)
            try:
                return moments.open_moments(path, widths, rank, glance.is_finite, head)
            finally:
                path.unlink()

        with ThreadPoolExecutor(PARALLEL) as pool:
            self._moments = self._map_members(pool, list(self.offers), work)
        self.require_enough()
        heads = {
            name: sha256(json.dumps(file.shapes).encode()) for name, file in self._moments.items()
        }
        usual = self._require_majority(
            "inputs of the layers", heads, "the same base model everywhere"
        )

        def check(name: str) -> None:
            # Moments are compared input by input: all members must mean the same inputs.
            detail = "got other layers for an input than most members have"
            gate.require(heads[name] == usual, "moments", detail)

        self._check_each(heads, check)

    def _require_majority(self, what: str, answers: dict[str, str], remedy: str) -> str:
        """The answer of more than half of the members; without one the round fails.

        A tie must not be decided: one of two members could evict the other for good.
        """
        agreed = gate.find_majority(answers.values())
        if agreed is not None:
            return agreed
        listed = ", ".join(f"{name} has {answer}" for name, answer in list(answers.items())[:8])
        raise self._make_too_few_error(
            f"{what}: {listed}; expected more than half of the members to have the same, "
            f"or {remedy}"
        )

    def _check_norms(self) -> None:
        """Refuse updates that moved too far, by the spec's bound and then by the others' median."""
        settings = self._assignment.settings.aggregation
        most, ratio = settings.max_update_norm, settings.max_norm_ratio

        def check(limit: float, shown: str) -> None:
            self._check_each(self.offers, lambda n: gate.check_norm(self._norms[n], limit, shown))

        if most is not None:
            check(most, f"{most:g}")
        if len(self.offers) >= FEWEST_COMPARED:
            moving = [norm for name in self.offers if (norm := self._norms[name])]
            median = statistics.median_low(moving) if moving else 0.0
            check(ratio * median, f"{ratio:g} times the median {median:.6g}")

    def list_updates(self) -> list[Update]:
        """The updates to merge, sorted by environment."""
        settings = self._assignment.settings.aggregation
        weights = _compute_weights(settings, self.offers.values())
        for name, (claimed, weight) in zip(self.offers, weights, strict=True):
            if weight < claimed:
                self._log.warning(
                    "weight_capped",
                    environment=name,
                    claimed=int(claimed),
                    counted=round(weight),
                    message="it says that it has far more than the others, and counts less; where "
                    "you trust that, raise aggregation.options.maxWeightRatio",
                )
        return [
            Update(
                environment=name,
                file=self._files[name],
                weight=weight,
                norm=self._norms[name],
                moments=self._moments.get(name),
            )
            for name, (_, weight) in zip(self.offers, weights, strict=True)
        ]

    def close(self) -> None:
        """Close the files."""
        for file in (*self._files.values(), *self._moments.values()):
            file.close()

    def require_enough(self) -> None:
        """Fail where too few members are left, naming each refusal."""
        if len(self.offers) >= self._assignment.minimum:
            return
        named = ", ".join(f"{name} ({reason})" for name, reason in sorted(self.refused.items()))
        raise self._make_too_few_error(
            f"{len(self.offers)} of {len(self._assignment.members)} updates passed the gate, "
            f"expected {self._assignment.minimum} or more; refused: {named or 'none'}"
        )

    def _make_too_few_error(self, why: str) -> TooFewMembers:
        names, round_ = self._assignment.environments, self._assignment.round
        refused = sorted(
            (names.index(name), str(reason))
            for name, reason in self.refused.items()
            if name in names  # a silo of a masked sum may have left since
        )
        report = AggregatorReport(
            round=round_, manifest="", adapter="", bytes=0, members=[], refused=refused
        )
        return TooFewMembers(why, report)

    def _check_each(self, names: Iterable[str], check: Callable[[str], None]) -> None:
        """Refuse the members that fail a check; too few left end the round."""
        for name in list(names):
            with self._catch_refusal(name):
                check(name)
        self.require_enough()

    def _map_members(
        self, pool: ThreadPoolExecutor, names: Iterable[str], work: Callable[[str], _T]
    ) -> dict[str, _T]:
        """Run `work` for many members at a time; refusals are recorded in the order of names."""
        done: dict[str, _T] = {}
        futures = {name: pool.submit(work, name) for name in names}
        try:
            for name, future in futures.items():
                with self._catch_refusal(name):
                    done[name] = future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return done

    @contextmanager
    def _catch_refusal(self, environment: str) -> Iterator[None]:
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

    def _read_offer(self, member: Member) -> OfferedUpdate:
        """Read a manifest by range, which limits its size in a single request.

        The store's checksums do not cover a range. Bytes of another digest are read again with
        checksums, so that no honest member is refused for a bit flipped in transfer.
        """
        key = gate.get_manifest_key(self._assignment, member.environment)
        try:
            data = self._store.get_range(key, 0, gate.MAX_MANIFEST + 1)
            gate.check_manifest_size(len(data))
            if sha256(data) != member.manifest:
                data = self._store.get(key)
        except NotFound:
            raise UpdateRefused("manifest-missing") from None
        return gate.read_manifest(data, member, self._assignment)

    def _read_shapes(self, offer: OfferedUpdate) -> Shapes:
        """Shapes from a file's header; `fetch` refuses a file of another length than it says."""
        key = self._get_adapter_key(offer)
        try:
            head = scratch.read_head(self._store, key, UNKNOWN_HEAD)
            shapes = self._parse_shapes(head, offer)
        except NotFound:
            raise UpdateRefused("file-missing", key) from None
        except UnsealError as error:
            raise UpdateRefused("sealed", error.message) from None
        except lora.AdapterError as error:
            raise gate.make_refusal(error) from None
        gate.check_shapes(shapes, self._assignment)
        return shapes

    def _parse_shapes(self, head: bytes, offer: OfferedUpdate) -> Shapes:
        return lora.parse_shapes(head, offer.entry.size)

    def _examine(
        self, path: Path, ready: Future[Parts], glance: scratch.ValueCheck, head: int
    ) -> tuple[TensorFile, float]:
        file = gate.open_update(path, head)
        path.unlink()  # an open file stays readable, and a killed process leaves nothing behind
        try:
            start, _ = ready.result()
            if file.layout is not start.layout:  # equal headers share one parsed layout
                gate.check_shapes(file.shapes, self._assignment)
                gate.check_same_shapes(file.shapes, start.shapes)
            # One NaN in one update would make the whole global adapter NaN.
            gate.require(glance.is_finite, "not-finite")
            gate.check_bounded(glance.is_bounded)
            changed = measure.find_changed_tensor(file, start, self._half)
            detail = f"{changed} is not the start's, and only {self._half} is trained"
            gate.require(not changed, "half", detail)
            if self._assignment.settings.aggregation.merges_factors(self._assignment.round):
                gate.check_turned(measure.find_turned_layer(file, start))
            norm = measure.measure_distance(file, start)
        except BaseException:
            file.close()
            raise
        return file, norm

    def _get_adapter_key(self, offer: OfferedUpdate) -> str:
        return self._get_folder(offer.member.environment) + offer.file

    def _get_folder(self, environment: str) -> str:
        prefix = self._assignment.storage.prefix
        return bucket_keys.update_folder(prefix, environment, self._assignment.round)


def _compute_weights(
    settings: Aggregation, offers: Collection[OfferedUpdate]
) -> list[tuple[float, float]]:
    """What each member claims, and what it counts; all are 1 where nobody claims a count.

    Nobody can check the counts. A weight is at most maxWeightRatio times the median of the counts
    above 0 (of two, the lower), so that no claim can dominate the mean.
    """
    claims: list[float] = []
    if settings.strategy == "weighted-mean":
        options = settings.read(WeightedMeanOptions)
        counts = [offer.manifest.counts for offer in offers]
        claims = [float(options.claim(each.kept, each.succeeded)) for each in counts]
    if not any(claims):
        return [(1.0, 1.0)] * len(offers)
    most = options.max_weight_ratio * statistics.median_low([claim for claim in claims if claim])
    return [(claim, min(claim, most)) for claim in claims]
