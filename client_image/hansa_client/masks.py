"""Sending a masked update: a record of its peers, a claim, the body, and last its manifest.

It is made from the plain update in the private store, by stored keys: every attempt sends the same
bytes. When other silos drop out, the same update is masked again for those that are left; nothing
is played, trained or loaded for it.

Limits: the coordinator names the peers' public keys, and is trusted with that.
"""

from hansa.adapter import lora, masking
from hansa.adapter.lora import Tensors
from hansa.api import bucket_documents, bucket_keys
from hansa.api.bucket_documents import UpdateManifest
from hansa.api.secure_aggregation import LEAST
from hansa.core.errors import Corrupt, InputError, NotFound, PermanentError
from hansa.core.model import Model, Sha256
from hansa.crypto.sealing import OpeningKey
from hansa.store import claims
from hansa.store.base import put_once
from hansa.store.claims import Claim
from hansa.store.documents import parse
from hansa_client import send
from hansa_client.agent import check_digest, read_start_adapter
from hansa_client.send import Committed, update_folder
from hansa_client.silo import Silo


class MaskRecord(Model):
    """What a silo has masked in an epoch, in its private store."""

    peers: Sha256
    """Digest of the silos it is for, and their keys."""
    sha256: Sha256
    """Digest of the body."""


def check(silo: Silo) -> None:
    """Refuse, before anything is played, settings that expose an update or cannot be masked."""
    assignment = silo.assignment
    if assignment.settings.aggregation.secure is None and assignment.masking is None:
        return
    secure, masks = masking.require_masking(assignment)
    peers, name = masks.peers, assignment.environment
    if masks.epoch and secure.on_dropout == "fail":
        raise PermanentError(
            f"masking.epoch: got {masks.epoch}, expected 0, for secure.onDropout is fail: this "
            "silo masks once in a round"
        )
    if len(peers) < LEAST or len(set(peers.values())) < len(peers):
        raise PermanentError(
            f"masking.peers: got {len(set(peers.values()))} different keys of {len(peers)} silos, "
            f"expected {LEAST} silos or more, each with a key of its own"
        )
    if name not in peers:
        raise PermanentError(f"masking.peers: got no key of {name}, expected this silo's")
    _ = _find_own_key(silo)


def send_update(silo: Silo, plain: Committed) -> Committed:
    """Send the update as others may see it: plain, or masked, unless an earlier attempt did.

    One without training has nothing to hide, and is in no sum.
    """
    if silo.assignment.masking is None:
        return plain
    if not plain.manifest.trained:
        return _commit(silo, plain.manifest, bucket_keys.MANIFEST)
    return _find(silo, plain) or _send(silo, plain)


def _find(silo: Silo, plain: Committed) -> Committed | None:
    _, masks = masking.require_masking(silo.assignment)
    key = update_folder(silo.assignment) + bucket_keys.masked_manifest(masks.epoch)
    try:
        data = silo.staged.get_published(key)
    except NotFound:
        return None
    stored = send.parse_committed(silo.assignment, data)
    if stored.manifest.masked != masking.describe_masked(silo.assignment, plain.manifest.counts):
        raise Corrupt(f"{key}: got an update that is masked otherwise than this silo would")
    return stored


def _send(silo: Silo, plain: Committed) -> Committed:
    assignment, document = silo.assignment, plain.manifest
    _, masks = masking.require_masking(assignment)
    own, start = _read_tensors(silo, document)
    try:
        key, counts = _find_own_key(silo), document.counts
        body = masking.mask_update(assignment, key, own, start, document.norm, counts)
    except InputError as error:
        raise PermanentError(error.message) from None
    digest = bucket_documents.sha256(body)
    _write_record(silo, digest)
    _claim(silo, digest)
    name = bucket_keys.masked_body(masks.epoch)
    # Another attempt's bytes are the same, or the claim's digest differs.
    silo.staged.publish(update_folder(assignment) + name, body)
    silo.log.info("sending_masked", epoch=masks.epoch, silos=len(masks.peers), bytes=len(body))
    offered = {
        "files": send.describe_files({name: body}),
        "masked": masking.describe_masked(assignment, counts),
        "norm": 0.0,  # the length of one update is a part of it
    }
    masked = document.model_copy(update=offered)
    committed = _commit(silo, masked, bucket_keys.masked_manifest(masks.epoch))
    silo.watch.lap("send")
    return committed


def _read_tensors(silo: Silo, plain: UpdateManifest) -> tuple[Tensors, Tensors]:
    """The plain update and what it was trained from."""
    assignment = silo.assignment
    key = update_folder(assignment) + bucket_keys.ADAPTER
    data = silo.exchange.get(key)  # staged
    check_digest(key, data, plain.files[bucket_keys.ADAPTER].sha256)
    own = lora.decode(data, copy=False)
    whole = read_start_adapter(silo.exchange, assignment, lambda: lora.shapes(own))
    return own, lora.split(whole, assignment.adapter.rank).trained


def _write_record(silo: Silo, digest: str) -> None:
    """Record the one body of an epoch: a second one would reveal the difference of both."""
    assignment = silo.assignment
    _, masks = masking.require_masking(assignment)
    own = MaskRecord(peers=masking.digest_peers(masks.peers), sha256=digest)
    key = bucket_keys.masking_record(
        assignment.private_storage.prefix, assignment.environment, assignment.round, masks.epoch
    )
    stored = parse(
        MaskRecord, key, put_once(silo.private, key, bucket_documents.canonical(own.to_json()))
    )
    if stored.peers != own.peers:
        raise PermanentError(
            f"masking.peers: got others than those that this silo has masked for in epoch "
            f"{masks.epoch} of round {assignment.round}, expected the same"
        )
    if stored.sha256 != own.sha256:
        raise Corrupt(f"{key}: names other bytes than the update has once it is masked")


def _claim(silo: Silo, digest: str) -> None:
    """Claim the epoch before anything is sent; a tombstone means that this silo was left out."""
    assignment = silo.assignment
    _, masks = masking.require_masking(assignment)
    place = (assignment.storage.prefix, assignment.environment, assignment.round, masks.epoch)
    stored = claims.put_claim(silo.exchange, *place, Claim(sha256=digest))
    if stored.tombstone:
        raise PermanentError(
            f"{bucket_keys.claim(*place)}: this silo was left out of the sum of epoch "
            f"{masks.epoch}, for it came too late; nothing was sent",
            hint="it takes part in the next round",
        )
    if stored.sha256 != digest:
        raise Corrupt(f"{bucket_keys.claim(*place)}: got another claim than this silo's")


def _commit(silo: Silo, document: UpdateManifest, name: str) -> Committed:
    data = bucket_documents.canonical(document.to_json())
    stored = silo.staged.publish(update_folder(silo.assignment) + name, data)
    return send.parse_committed(silo.assignment, stored)


def _find_own_key(silo: Silo) -> OpeningKey:
    """The private key of the public key that the other silos have for this one."""
    _, masks = masking.require_masking(silo.assignment)
    wanted = masks.peers[silo.assignment.environment]
    for key in silo.masking_keys():
        if key.public == wanted:
            return key
    raise PermanentError(
        f"masking.peers: got {wanted} for this silo, expected the public key of its masking key",
        hint="spec.environments[].maskingKey is what `hansa keys show FILE` prints",
    )
