"""The gate: checks that every update must pass before it is merged, each with its reason code.

It refuses updates that are broken, of another run or shape, too long, or turned so that a mean of
factors would be ruined. It does not stop a member that sends harmful values of a usual length.
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
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import FileEntry, Member, UpdateManifest
from hansa.api.spec import differences
from hansa.validation.json_size import CROWDED, is_crowded
from hansa.validation.messages import describe_first_misfit

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
    "manifest-malformed": "manifest.json is not an update manifest that this version understands",
    "other-run": "the update was computed from other settings, or for another round",
    "start": "the update was trained from another global adapter",
    "untrained": "the environment had no experience to train on",
    "alpha": "the update was trained with another scale than spec.adapter.alpha gives it",
    "base-model": "the update was trained on another base model than the federation's",
    "file-missing": "the manifest names a file that is not there",
    "size": "a file has another length than its manifest says, or far more than an adapter needs",
    "sha256": "the adapter's bytes are not those that its manifest names",
    "unreadable": "the adapter is not a complete safetensors file",
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
"""Maximum bytes of an update's manifest; the assignment in it has less than 128 KiB."""

MOST_VALUE = 1e4
"""Largest absolute value in an update; weights of a layer are far below 1."""

_ADAPTER_REASONS: dict[lora.AdapterReason, RefusalReason] = {
    "dtype": "dtype",
    "name": "targets",
    "shape": "shape",
}


class UpdateRefused(Exception):
    """This update is not merged; `reason` goes into the report, `detail` into the log."""

    def __init__(self, reason: RefusalReason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: RefusalReason = reason
        self.detail = detail


def require(holds: bool, reason: RefusalReason, detail: str = "") -> None:
    """Refuse an update unless a condition holds."""
    if not holds:
        raise UpdateRefused(reason, detail)


@dataclass(frozen=True, kw_only=True)
class OfferedUpdate:
    """An update whose manifest has passed; its adapter is not read yet."""

    member: Member
    """Who sent it, and the digest of its manifest."""
    manifest: UpdateManifest
    """Its manifest."""
    file: str = bucket_keys.ADAPTER
    """Name of the file that is merged."""

    @property
    def entry(self) -> FileEntry:
        """That file as the manifest describes it."""
        return self.manifest.files[self.file]


def read_manifest(data: bytes, member: Member, assignment: Assignment) -> OfferedUpdate:
    """The offer that a manifest makes, or UpdateRefused with the first reason against it."""
    check_manifest_size(len(data))
    # The members were frozen with their manifests: a later manifest is another update.
    digest = bucket_documents.sha256(data)
    require(digest == member.manifest, "manifest-hash", f"got {digest}, expected {member.manifest}")
    document = parse_manifest(data)
    check_run(document, member, assignment)
    check_start(document, assignment)
    # An update without training is the start itself, and would only hold the others back.
    require(document.trained, "untrained")
    check_files(document, assignment)
    check_sealed(document, assignment)
    check_masked(document, assignment)
    check_privacy(document, assignment)
    return OfferedUpdate(member=member, manifest=document, file=get_merged_file(assignment))


def get_merged_file(assignment: Assignment) -> str:
    """Name of the file of each update that is merged."""
    masked = assignment.masking
    return bucket_keys.masked_body(masked.epoch) if masked else bucket_keys.ADAPTER


def get_manifest_key(assignment: Assignment, environment: str) -> str:
    """Where the manifest of an environment's update is."""
    folder = bucket_keys.update_folder(assignment.storage.prefix, environment, assignment.round)
    return folder + bucket_keys.masked_manifest(
        assignment.masking.epoch if assignment.masking else 0
    )


def check_manifest_size(size: int) -> None:
    """A manifest holds numbers; a large one is an attack on the server's memory."""
    detail = f"got more than {MAX_MANIFEST} bytes, expected no more"
    require(size <= MAX_MANIFEST, "manifest-malformed", detail)


def parse_manifest(data: bytes) -> UpdateManifest:
    """The manifest as data; its fingerprint must be that of its own inputs."""
    require(not is_crowded(data), "manifest-malformed", f"got {CROWDED}")
    try:
        document = UpdateManifest.model_validate_json(data)
        fingerprint = bucket_documents.fingerprint(document.inputs)
    except ValidationError as error:
        raise UpdateRefused("manifest-malformed", describe_first_misfit(error)) from None
    except (ValueError, RecursionError):  # numbers of thousands of digits, text that is no Unicode
        raise UpdateRefused("manifest-malformed", "inputs cannot be written down again") from None
    is_own = document.fingerprint == fingerprint
    require(is_own, "manifest-malformed", "fingerprint is not that of inputs")
    return document


def check_run(document: UpdateManifest, member: Member, assignment: Assignment) -> None:
    """Same federation, settings, round and environment; the world is the silo's own matter."""
    is_its_own = (document.round, document.environment) == (assignment.round, member.environment)
    require(is_its_own, "other-run", f"of {document.environment[:80]}, round {document.round}")
    client = assignment.model_copy(update={"role": "client", "environment": member.environment})
    unknown = {"world", "options", "start"}  # the silo's own matter; start is checked apart
    expected = {name: value for name, value in client.inputs().items() if name not in unknown}
    got = {name: document.inputs.get(name) for name in expected}
    differing = differences(got, expected)
    if differing:
        shown = ", ".join(f"{path} {str(a)[:80]}, expected {b}" for path, a, b in differing[:3])
        only_alpha = [path for path, _, _ in differing] == ["adapter.alpha"]
        raise UpdateRefused("alpha" if only_alpha else "other-run", shown)


def check_start(document: UpdateManifest, assignment: Assignment) -> None:
    """The mean is a step from one common point only if all started there."""
    start = assignment.start.to_json()
    is_same = document.start == assignment.start and document.inputs.get("start") == start
    require(is_same, "start", f"trained from round {document.start.round}")


def check_files(document: UpdateManifest, assignment: Assignment) -> None:
    """The manifest must describe the files that are aggregated."""
    name = get_merged_file(assignment)
    require(name in document.files, "manifest-malformed", f"files has no {name}")
    if assignment.settings.aggregation.needs_moments:
        has_moments = bucket_keys.MOMENTS in document.files
        require(has_moments, "moments", f"files has no {bucket_keys.MOMENTS}")


def check_sealed(document: UpdateManifest, assignment: Assignment) -> None:
    """An update that was stored unsealed, or for another key, may have been read by others."""
    wanted, got = assignment.settings.aggregation.seal_to, document.sealed_to
    detail = f"sealed to {got or 'no key'}, expected {wanted or 'none'}"
    require(got == wanted, "sealed", detail)


def check_masked(document: UpdateManifest, assignment: Assignment) -> None:
    """Masks cancel in the sum only if all members made them for one another."""
    wanted = masking.describe_masked(assignment, document.counts) if assignment.masking else None
    got = document.masked.to_json() if document.masked else "no masks"
    expected = wanted.to_json() if wanted else "none"
    require(document.masked == wanted, "masked", f"got {got}, expected {expected}")


def check_privacy(document: UpdateManifest, assignment: Assignment) -> None:
    """The silo's claim counts: nobody else can see whether noise was added."""
    privacy, claim = assignment.settings.privacy, document.privacy
    if privacy:
        follows = claim and claim.follows(privacy, assignment.settings.training.max_steps)
        require(bool(follows), "privacy", f"got {claim.to_json() if claim else 'nothing'}")


def check_size(entry: FileEntry, stored: int, limit: int) -> None:
    """Checked before the bytes are read, so that a huge file costs nothing."""
    require(stored == entry.size, "size", f"got {stored} bytes, expected {entry.size}")
    require(stored <= limit, "size", f"got {stored} bytes, expected at most {limit}")


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
            is_target = any(f".{module}".endswith(f".{target}") for target in wanted)
            require(is_target, "targets", f"{module} is none of spec.adapter.targetModules")


def check_same_shapes(got: lora.Shapes, expected: lora.Shapes) -> None:
    """Tensor by tensor as in the start adapter."""
    odd = sorted(got.keys() ^ expected.keys())
    if odd:
        raise UpdateRefused("targets", f"{odd[0]} is {'new' if odd[0] in got else 'missing'}")
    for name, shape in got.items():
        wanted = expected[name]
        require(shape == wanted, "shape", f"{name}: got {list(shape)}, expected {list(wanted)}")


def check_bounded(bounded: bool) -> None:
    """A finite value may still be large enough to end every run that adds it."""
    require(bounded, "too-large", f"expected values from -{MOST_VALUE:g} to {MOST_VALUE:g}")


def check_norm(norm: float, limit: float, shown: str) -> None:
    """An update that moved too far, by the spec's bound or by the others' median."""
    require(not norm > limit, "norm", f"got {norm:.6g}, expected at most {shown}")


def check_turned(layer: str) -> None:
    """(-A, -B) is the same change as (A, B), and their mean is no change at all."""
    require(not layer, "turned", f"{layer}: expected the start's A moved by training, not turned")


def open_update(path: Path, most_head: int) -> TensorFile:
    """The update's file, to be read by ranges."""
    try:
        return lora.open_file(path, most=most_head)
    except lora.AdapterError as error:
        raise make_refusal(error) from None


def make_refusal(error: lora.AdapterError) -> UpdateRefused:
    """The refusal for an invalid adapter."""
    return UpdateRefused(_ADAPTER_REASONS.get(error.reason, "unreadable"), error.message)


def find_majority(values: Iterable[str]) -> str | None:
    """The value that more than half have; None where there is none: a tie decides nothing."""
    counted = Counter(values)
    value, count = counted.most_common(1)[0]
    return value if 2 * count > counted.total() else None
