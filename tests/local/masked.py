"""A federation of four silos that mask their updates, on this machine."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hansa.adapter import lora, masking
from hansa.api import bucket_keys
from hansa.crypto import sealing
from hansa.local.objectstore import LocalStore
from tests.local import identities
from tests.support import small

SILOS = ("a", "b", "c", "d")
FIFTH = "e"
"""One more, for rounds that two drop out of."""
EVERYBODY = (*SILOS, FIFTH)
WHERE = "mine"
"""Prefix of the private stores."""
CLIP = 0.5


@dataclass
class Place:
    """An exchange, a private store for each silo, and a key of each."""

    folder: Path
    exchange: LocalStore
    private: LocalStore

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    def make_keys(self) -> None:
        self.keys.mkdir()
        for name in EVERYBODY:
            (self.keys / f"{name}.key").write_bytes(sealing.generate_opening_key().pem())

    def silo(self, name: str, **changes: Any) -> dict[str, Any]:
        [own] = sealing.read_keys((self.keys / f"{name}.key").read_bytes(), "")
        maze = small.SPEC["environments"][0]
        store = {"s3": {**self.private.s3.to_json(), "prefix": WHERE}}
        given = {"maskingKey": own.public, "experienceStorage": store}
        return {**maze, "name": name, **given, **changes}

    def manifest(self, *silos: dict[str, Any], **changes: Any) -> Path:
        """The federation's; its round costs a second or two."""
        fields = {
            "rounds": 1,
            "exploration": {"tasksPerRound": 2, "batchEpisodes": 32, "maxNewTokens": 16},
            "evaluation": {"tasks": 2},
            "training": {**small.SPEC["training"], "maxSteps": 2},
            "participation": {"minimumUpdates": 3, "retries": 1},
            "aggregation": {"strategy": "ffa", "secure": {"clipNorm": CLIP}},
            "storage": {"s3": self.exchange.s3.to_json()},
            "environments": list(silos) or [self.silo(name) for name in SILOS],
            **changes,
        }
        return small.write_manifest(self.folder, **fields)

    def options(self) -> list[str | Path]:
        return ["--credentials", self.credentials(), "--masking-keys", self.keys]

    def credentials(self) -> Path:
        names = (*EVERYBODY, "aggregator")
        return identities.write(self.folder, names, self.exchange, self.private)

    # -- what a run has left ----------------------------------------------------------------------

    def document(self, *parts: str) -> dict[str, Any]:
        """A JSON document of the exchange."""
        found: dict[str, Any] = json.loads(self.exchange.store().get("/".join(parts)))
        return found

    def updates(self, name: str) -> list[str]:
        """Names of what a silo has sent, round by round."""
        root = bucket_keys.update_root(small.NAME, name)
        return [key.removeprefix(root) for key in self.exchange.store().list(root)]

    def plain(self, name: str, round_: int) -> tuple[lora.Tensors, float]:
        """A silo's update before it was masked, and the norm of its change."""
        folder = f"{bucket_keys.masking_updates(WHERE, name)}{round_:05d}/"
        store = self.private.store()
        norm = json.loads(store.get(folder + bucket_keys.MANIFEST))["norm"]
        return lora.decode(store.get(folder + bucket_keys.ADAPTER)), norm

    def merged(self, round_: int) -> lora.Tensors:
        """The global adapter of a round."""
        data = self.exchange.store().get(
            bucket_keys.global_folder(small.NAME, round_) + bucket_keys.ADAPTER
        )
        return lora.decode(data)

    def sum_without_masks(self, round_: int, names: Sequence[str]) -> lora.Tensors:
        """What the global adapter of a round must be, computed from the silos' plain updates.

        A stays as it is, so that the start of round 1 is known: its B are zeros.
        """
        plain = [self.plain(name, round_) for name in names]
        start = self.merged(round_ - 1) if round_ > 1 else _untrained(plain[0][0])
        bits, made = masking.count_fraction_bits(len(names), CLIP), dict(start)
        for name in masking.list_trained(lora.shapes(start), "B"):
            total = np.zeros(start[name].size, np.uint32)
            for own, norm in plain:
                factor = masking.clip_factor(norm, CLIP)
                for piece in masking.quantize_change(own, start, [name], factor, bits):
                    total[: piece.size] += piece
            mean = masking.dequantize(total, len(names) * masking.UNIT, bits)
            changed = mean + start[name].reshape(-1)
            made[name] = changed.astype(np.float32).reshape(start[name].shape)
        return made

    def stretches(self) -> list[bytes]:
        """Long stretches of every silo's unmasked weights, but of what all have in common."""
        store, found = self.private.store(), []
        for name in EVERYBODY:
            for key in store.list(bucket_keys.masking_updates(WHERE, name)):
                if key.endswith(bucket_keys.ADAPTER):
                    tensors = lora.decode(store.get(key)).items()
                    found += [each.tobytes()[:64] for tensor, each in tensors if "lora_B" in tensor]
        return [each for each in found if any(each)]


def _untrained(tensors: lora.Tensors) -> lora.Tensors:
    return {n: np.zeros_like(t) if "lora_B" in n else t for n, t in tensors.items()}
