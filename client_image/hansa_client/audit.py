"""A silo's update once more: trained again from its own shards, on the CPU, it has the same bytes.

Only the silo can do this, for nobody else may read its experience. It does what a round does, by
the same functions, and stores nothing.

Limits: an update that a GPU trained is not made again, and another version or kind of machine may
give other bytes. What was explored is taken as it is stored.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hansa import adapter, keys
from hansa.assignment import Assignment
from hansa.audit import AuditEntry, CannotBe, Differs, Quiet, blame, first_difference, rebuilt
from hansa.errors import NotFound
from hansa.manifest import UpdateManifest, sha256
from hansa.spec import S3
from hansa.store.base import ObjectStore
from hansa.store.documents import parse
from hansa_client import send
from hansa_client.agent import Agent
from hansa_client.experience.shards import DEMONSTRATIONS, Shard, Shards
from hansa_client.round import choose, earlier
from hansa_client.silo import Silo

SAME = ("torch", "machine")
"""What must be the same for equal bytes to be promised."""


class Retraining:
    """Trains a silo's updates again, one round after another; the base model is loaded once."""

    def __init__(
        self, exchange: ObjectStore, storage: S3, private: ObjectStore, place: S3 | None, name: str
    ) -> None:
        """`private` and `place` are the silo's own store; no place: it lies in the exchange."""
        self._exchange, self._storage = exchange, storage
        self._private, self._place = private, place
        self._name = name
        self._loaded: tuple[int, Agent] | None = None

    def __call__(self, entry: AuditEntry, _: object = None) -> None:
        """The update of one round; Differs or CannotBe unless it is as it is stored."""
        if self._name not in [member.environment for member in entry.members]:
            return
        folder = keys.update_folder(self._storage.prefix, self._name, entry.round)
        key = folder + keys.masked_manifest(entry.epoch)
        sent = parse(UpdateManifest, key, self._exchange.get(key))
        stored = self._exchange
        if sent.masked:
            stored = self._private
            folder, sent = self._unmasked(entry, sent)
        if not sent.trained:
            return
        if sent.made_with.get("device", "cpu") != "cpu":
            raise CannotBe("its update was trained on a GPU")
        assignment = self._assignment(entry, sent)
        for name, data in self._train(assignment, sent).items():
            if name in sent.files and sha256(data) != sent.files[name].sha256:
                what = f"{folder}{name}: {_compare(stored.get(folder + name), data)}"
                blame(what, sent.made_with, send.made_with(), SAME)

    def _unmasked(self, entry: AuditEntry, sent: UpdateManifest) -> tuple[str, UpdateManifest]:
        """Where the update is before it was masked, and what it says: only the silo has it."""
        root = keys.masking_updates(self._place.prefix if self._place else "", self._name)
        folder = f"{root}{entry.round:05d}/"
        key = folder + keys.MANIFEST
        try:
            plain = parse(UpdateManifest, key, self._private.get(key))
        except NotFound:
            raise CannotBe(f"{key}: the update before it was masked is gone") from None
        said = {"masked": sent.masked, "files": sent.files, "norm": sent.norm}
        if plain.model_copy(update=said) != sent:
            raise Differs(f"{key}: is not what the masked update's manifest was made of")
        return folder, plain

    def _assignment(self, entry: AuditEntry, sent: UpdateManifest) -> Assignment:
        """What the client was given, as far as its update follows from it."""
        inputs = dict(sent.inputs)
        inputs.pop("half", None)  # it follows from the aggregation
        settings = {
            name: inputs.pop(name, {}) for name in ("exploration", "experience", "training")
        }
        if "privacy" in inputs:
            settings["privacy"] = inputs.pop("privacy")
        document: dict[str, Any] = {
            **inputs,
            "role": "client",
            "federation": "audit",
            "settings": {**settings, "aggregation": entry.inputs.get("aggregation", {})},
            "storage": self._storage.to_json(),
            "environments": [member.environment for member in entry.members],
        }
        if self._place:
            document["experienceStorage"] = self._place.to_json()
        return rebuilt(document, sent.fingerprint)

    def _train(self, assignment: Assignment, sent: UpdateManifest) -> dict[str, bytes]:
        silo = Silo(assignment, self._exchange, self._private, Quiet("audit"))
        agent = self._load(assignment)
        if agent.base_model != sent.base_model:
            raise CannotBe(f"{assignment.model.source} is another base model than it was then")
        shards = _shards(silo)
        try:
            lesson = choose(silo, agent, shards, pays=False)
        except NotFound:
            raise CannotBe("the key of its noise is not in its store any more") from None
        if not lesson.sequences and not lesson.private:
            raise Differs("its shards hold nothing to learn from, but it has sent an update")
        own = silo.train(agent, lesson, "audit").tensors
        files = {keys.ADAPTER: adapter.encode(own)}
        if assignment.settings.aggregation.needs_moments:
            files[keys.MOMENTS] = silo.moments(agent, lesson, own)
        return files

    def _load(self, assignment: Assignment) -> Agent:
        """The round's agent; the base model is loaded anew where the number of threads changed."""
        threads = assignment.settings.training.cpu_threads
        if self._loaded and self._loaded[0] == threads:
            return Agent(assignment, self._exchange, twin=self._loaded[1])
        agent = Agent(assignment, self._exchange)
        self._loaded = threads, agent
        return agent


def _compare(stored: bytes, data: bytes) -> str:
    with TemporaryDirectory(prefix="hansa-") as folder:
        mine, theirs = Path(folder) / "mine", Path(folder) / "theirs"
        mine.write_bytes(data)
        theirs.write_bytes(stored)
        return first_difference(mine, theirs)


def _shards(silo: Silo) -> list[Shard]:
    """What the round learned from; nothing is played again."""
    assignment = silo.assignment
    shards = Shards(silo.private, assignment)
    shown, explored = shards.find(DEMONSTRATIONS), shards.find(assignment.round)
    if not shown or not explored:
        missing = assignment.round if shown else DEMONSTRATIONS
        place = assignment.private_storage.prefix
        key = keys.experience_shard(place, assignment.environment, missing)
        raise CannotBe(f"{key}: there is no such shard any more")
    return [shown, *earlier(silo, shards), explored]
