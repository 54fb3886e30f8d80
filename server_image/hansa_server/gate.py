"""The gate: one small function per refusal, run on every update before it counts.

It stops updates that are broken, foreign, of another shape, too long, or turned so that a mean of
factors would be ruined. It does not stop a member that sends well-formed harmful values of a usual
length.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from hansa.adapter import lora, masking
from hansa.adapter.tensor_file import TensorFile
from hansa.api import bucket_documents, bucket_keys
from hansa.api.aggregation import Half
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import FileEntry, Member, UpdateManifest
from hansa.api.spec import differences
from hansa.validation.json_size import CROWDED, is_crowded
from hansa.validation.messages import first_misfit

RefusalReason = Literal[
    "manifest-missing",
    "manifest-hash",
    "manifest-malformed",
    "other-run",
    "start",
    "untrained",
    "alpha",
    "base-model",
    "file-missing",
    "size",
    "sha256",
    "unreadable",
    "dtype",
    "rank",
    "targets",
    "shape",
    "not-finite",
    "too-large",
    "half",
    "norm",
    "turned",
    "moments",
    "sealed",
    "masked",
    "privacy",
]

HELP: dict[RefusalReason, str] = {
    "manifest-missing": "the update has no manifest.json: it was never committed, or was deleted",
    "manifest-hash": "manifest.json is not the one that the client reported",
    "manifest-malformed": "manifest.json is no update manifest that this version understands",
    "other-run": "the update was computed from other settings, or for another round",
    "start": "the update was trained from another global adapter",
    "untrained": "the environment had no experience to train on",
    "alpha": "the update was trained with another scale than spec.adapter.alpha gives it",
    "base-model": "the update was trained on another base model than the federation's",
    "file-missing": "the manifest names a file that is not there",
    "size": "a file has another length than its manifest says, or far more than an adapter needs",
    "sha256": "the adapter's bytes are not those that its manifest names",
    "unreadable": "the adapter is no whole safetensors file",
    "dtype": "a tensor is not fp32",
    "rank": "a tensor has another rank than spec.adapter.rank",
    "targets": "the adapter changes other layers than the federation's",
    "shape": "a tensor has another shape than the federation's",
    "not-finite": "a value is infinite or not a number",
    "too-large": "a value is larger than 10,000, which no trained adapter has",
    "half": "the update changed the half of LoRA that this round leaves as it is",
    "norm": "the update moved further than aggregation.maxUpdateNorm or maxNormRatio allows",
    "turned": "A is the start's with other signs, or rotated: a mean of factors would be ruined",
    "moments": "the moments of its inputs are missing, broken, or of other layers",
    "sealed": "it is not sealed to the key of aggregation.sealTo, or not as it was sealed",
    "masked": "it is not masked for the silos, the epoch and the weight of this round",
    "privacy": "it does not say that it was trained as spec.privacy asks, or gave away more",
}
"""What each reason code means; reports carry the code, the log and the docs the sentence."""

MAX_MANIFEST = 256 * 2**10
"""Bytes of an update's manifest at most; an assignment, which it repeats, has less than 128 KiB."""

MOST_VALUE = 1e4
"""Size of one value at most, whatever the others sent: weights of a layer are far below 1."""

_ADAPTER_REASONS: dict[lora.AdapterReason, RefusalReason] = {
    "dtype": "dtype",
    "name": "targets",
    "shape": "shape",
}


class UpdateRefused(Exception):
    """This update does not count; `reason` goes into the report, `detail` into the log."""

    def __init__(self, reason: RefusalReason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: RefusalReason = reason
        self.detail = detail


@dataclass(frozen=True, kw_only=True)
class OfferedUpdate:
    """An update whose manifest has passed; its adapter is not read yet."""

    member: Member
    """Who offers it, and the digest of its manifest."""
    manifest: UpdateManifest
    """What it says about itself."""
    file: str = bucket_keys.ADAPTER
    """Name of the file that is merged."""

    @property
    def entry(self) -> FileEntry:
        """That file as the manifest describes it."""
        return self.manifest.files[self.file]


def read_manifest(data: bytes, member: Member, assignment: Assignment) -> OfferedUpdate:
    """The offer that a manifest makes, or UpdateRefused with the first reason against it."""
    check_manifest_size(len(data))
    check_manifest_hash(data, member)
    document = parse_manifest(data)
    check_run(document, member, assignment)
    check_start(document, assignment)
    check_trained(document)
    check_files(document, assignment)
    check_sealed(document, assignment)
    check_masked(document, assignment)
    check_privacy(document, assignment)
    return OfferedUpdate(member=member, manifest=document, file=merged_file(assignment))


def merged_file(assignment: Assignment) -> str:
    """Name of the file of each update that is merged."""
    masked = assignment.masking
    return bucket_keys.masked_body(masked.epoch) if masked else bucket_keys.ADAPTER


def manifest_key(assignment: Assignment, environment: str) -> str:
    """Where the manifest of an environment's update is."""
    folder = bucket_keys.update_folder(assignment.storage.prefix, environment, assignment.round)
    return folder + bucket_keys.masked_manifest(
        assignment.masking.epoch if assignment.masking else 0
    )


def check_manifest_size(size: int) -> None:
    """A manifest holds numbers; a large one is an attack on the server's memory."""
    if size > MAX_MANIFEST:
        raise UpdateRefused(
            "manifest-malformed", f"got more than {MAX_MANIFEST} bytes, expected no more"
        )


def check_manifest_hash(data: bytes, member: Member) -> None:
    """The members were frozen with their manifests; a later one is another update."""
    if bucket_documents.sha256(data) != member.manifest:
        raise UpdateRefused(
            "manifest-hash", f"got {bucket_documents.sha256(data)}, expected {member.manifest}"
        )


def parse_manifest(data: bytes) -> UpdateManifest:
    """The manifest as data; its fingerprint must be that of its own inputs."""
    if is_crowded(data):
        raise UpdateRefused("manifest-malformed", f"got {CROWDED}")
    try:
        document = UpdateManifest.model_validate_json(data)
    except ValidationError as error:
        raise UpdateRefused("manifest-malformed", first_misfit(error)) from None
    if document.fingerprint != _fingerprint(document):
        raise UpdateRefused("manifest-malformed", "fingerprint is not that of inputs")
    return document


def _fingerprint(document: UpdateManifest) -> str:
    try:
        return bucket_documents.fingerprint(document.inputs)
    except (ValueError, RecursionError):  # numbers of thousands of digits, text that is no Unicode
        raise UpdateRefused("manifest-malformed", "inputs cannot be written down again") from None


def check_run(document: UpdateManifest, member: Member, assignment: Assignment) -> None:
    """Same federation, settings, round and environment; the world is the silo's own matter."""
    if (document.round, document.environment) != (assignment.round, member.environment):
        raise UpdateRefused("other-run", f"of {document.environment[:80]}, round {document.round}")
    expected = _client_inputs(assignment, member.environment)
    got = {name: document.inputs.get(name) for name in expected}
    differing = differences(got, expected)
    if differing:
        shown = ", ".join(f"{path} {str(a)[:80]}, expected {b}" for path, a, b in differing[:3])
        only_alpha = [path for path, _, _ in differing] == ["adapter.alpha"]
        raise UpdateRefused("alpha" if only_alpha else "other-run", shown)


def _client_inputs(assignment: Assignment, environment: str) -> dict[str, object]:
    client = assignment.model_copy(update={"role": "client", "environment": environment})
    unknown = {"world", "options", "start"}  # the silo's own matter; start is checked apart
    return {name: value for name, value in client.inputs().items() if name not in unknown}


def check_start(document: UpdateManifest, assignment: Assignment) -> None:
    """The mean is a step from one common point only if all started there."""
    start = assignment.start.to_json()
    if document.start != assignment.start or document.inputs.get("start") != start:
        raise UpdateRefused("start", f"trained from round {document.start.round}")


def check_trained(document: UpdateManifest) -> None:
    """An update without training is the start itself, and would only hold the others back."""
    if not document.trained:
        raise UpdateRefused("untrained")


def check_files(document: UpdateManifest, assignment: Assignment) -> None:
    """The manifest must describe the files that are aggregated."""
    if merged_file(assignment) not in document.files:
        raise UpdateRefused("manifest-malformed", f"files has no {merged_file(assignment)}")
    if assignment.settings.aggregation.needs_moments and bucket_keys.MOMENTS not in document.files:
        raise UpdateRefused("moments", f"files has no {bucket_keys.MOMENTS}")


def check_sealed(document: UpdateManifest, assignment: Assignment) -> None:
    """Whoever was to read nothing of it has not: an update that lay open is worth a word."""
    wanted = assignment.settings.aggregation.seal_to
    if document.sealed_to != wanted:
        got = document.sealed_to or "no key"
        raise UpdateRefused("sealed", f"sealed to {got}, expected {wanted or 'none'}")


def check_masked(document: UpdateManifest, assignment: Assignment) -> None:
    """In a sum only masks that all made for one another cancel; what is below them nobody sees."""
    wanted = masking.described(assignment, document.counts) if assignment.masking else None
    if document.masked != wanted:
        got = document.masked.to_json() if document.masked else "no masks"
        raise UpdateRefused(
            "masked", f"got {got}, expected {wanted.to_json() if wanted else 'none'}"
        )


def check_privacy(document: UpdateManifest, assignment: Assignment) -> None:
    """It is the silo's word: nobody can see whether noise was added."""
    privacy = assignment.settings.privacy
    if privacy is None:
        return
    said = document.privacy
    if said is None or not said.follows(privacy, assignment.settings.training.max_steps):
        raise UpdateRefused("privacy", f"got {said.to_json() if said else 'nothing'}")


def check_base_model(offer: OfferedUpdate, expected: str) -> None:
    """A difference of weights means something only on top of the same weights."""
    if offer.manifest.base_model != expected:
        raise UpdateRefused("base-model", f"got {offer.manifest.base_model}, expected {expected}")


def check_size(entry: FileEntry, stored: int, limit: int) -> None:
    """Checked before the bytes are read, so that a huge file costs nothing."""
    if stored != entry.size:
        raise UpdateRefused("size", f"got {stored} bytes, expected {entry.size}")
    if stored > limit:
        raise UpdateRefused("size", f"got {stored} bytes, expected at most {limit}")


def check_sha256(entry: FileEntry, got: str) -> None:
    """The bytes are those that the manifest, and so the client's report, stands for."""
    if got != entry.sha256:
        raise UpdateRefused("sha256", f"got {got}, expected {entry.sha256}")


def check_shapes(shapes: lora.Shapes, assignment: Assignment) -> None:
    """Rank and layers as the federation's spec has them."""
    for name, shape in shapes.items():
        try:
            lora.check_rank(name, shape, assignment.adapter.rank)
        except lora.AdapterError as error:
            raise UpdateRefused("rank", error.message) from None
    wanted = assignment.adapter.target_modules
    if isinstance(wanted, list):
        for module in lora.target_names(shapes):
            if not any(f".{module}".endswith(f".{target}") for target in wanted):
                raise UpdateRefused("targets", f"{module} is none of spec.adapter.targetModules")


def check_pinned_shapes(got: str, expected: str) -> None:
    """The spec's digest of them counts more than what most members send."""
    if got != expected:
        raise UpdateRefused(
            "shape", f"got shapes of digest {got}, expected spec.adapter.shapes {expected}"
        )


def check_same_shapes(got: lora.Shapes, expected: lora.Shapes) -> None:
    """Tensor by tensor as in the start adapter."""
    odd = sorted(got.keys() ^ expected.keys())
    if odd:
        raise UpdateRefused("targets", f"{odd[0]} is {'new' if odd[0] in got else 'missing'}")
    for name, shape in got.items():
        if shape != expected[name]:
            raise UpdateRefused(
                "shape", f"{name}: got {list(shape)}, expected {list(expected[name])}"
            )


def check_finite(finite: bool) -> None:
    """One NaN in one update would make the whole global adapter NaN."""
    if not finite:
        raise UpdateRefused("not-finite")


def check_bounded(bounded: bool) -> None:
    """A finite value may still be large enough to end every run that adds it."""
    if not bounded:
        raise UpdateRefused("too-large", f"expected values from -{MOST_VALUE:g} to {MOST_VALUE:g}")


def check_half(half: Half, changed: str) -> None:
    """A member that moved what all should have left alone did not follow its assignment."""
    if changed:
        raise UpdateRefused("half", f"{changed} is not the start's, and only {half} is trained")


def check_norm(norm: float, limit: float | None) -> None:
    """An update that moved further than the spec allows, whatever the others did."""
    if limit is not None and norm > limit:
        raise UpdateRefused("norm", f"got {norm:.6g}, expected at most {limit:g}")


def check_norm_ratio(norm: float, median: float, ratio: float) -> None:
    """An update that moved much further than the round's others; the median is theirs."""
    if norm > ratio * median:
        limit = f"{ratio:g} times the median {median:.6g}"
        raise UpdateRefused("norm", f"got {norm:.6g}, expected at most {limit}")


def check_turned(layer: str) -> None:
    """(-A, -B) is the same change as (A, B), and their mean is no change at all."""
    if layer:
        raise UpdateRefused(
            "turned", f"{layer}: expected the start's A moved by training, not turned"
        )


def check_inputs(as_usual: bool) -> None:
    """Moments are compared input by input: all members must mean the same ones."""
    if not as_usual:
        raise UpdateRefused("moments", "got other layers for an input than most members have")


def open_update(path: Path, most_head: int) -> TensorFile:
    """The update's file, to be read by ranges."""
    try:
        return lora.open_file(path, most=most_head)
    except lora.AdapterError as error:
        raise refusal(error) from None


def refusal(error: lora.AdapterError) -> UpdateRefused:
    """An adapter's own error as the gate names it."""
    return UpdateRefused(_ADAPTER_REASONS.get(error.reason, "unreadable"), error.message)


def majority(values: Iterable[str]) -> str | None:
    """What more than half say; None where no answer has that many: a tie decides nothing."""
    counted = Counter(values)
    value, count = counted.most_common(1)[0]
    return value if 2 * count > counted.total() else None
