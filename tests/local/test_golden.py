"""What a small federation writes, document by document: a later version must write the same.

Numbers that follow from floating point, and so from the type of CPU, are left out; that adapters
are equal byte for byte is shown by runs beside each other. HANSA_UPDATE_GOLDEN=1 writes the file
anew: read its diff before you keep it, for other inputs or fields end every run that has begun.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hansa.local.objectstore import LocalStore
from tests.support import small

GOLDEN = Path(__file__).parent / "golden" / "small.json"
KEPT = ("kind", "round", "environment", "baseModel", "trained", "identity", "minimum")


def written(out: Path) -> dict[str, Any]:
    """Every object of a run's bucket by its key, with what of it is the same on every machine."""
    with LocalStore(out / "store", small.ENVIRONMENTS, prefix=small.NAME) as local:
        store = local.store()
        found = {key: shown(key, store.get(key)) for key in store.list("")}
        store.close()
    return found


def shown(key: str, data: bytes) -> dict[str, Any]:
    if not key.endswith(".json"):
        return {}
    document = json.loads(data)
    inputs = document.get("inputs", {})
    kept = {name: document[name] for name in KEPT if name in document}
    if "inputs" in document:
        kept["inputs"] = {name: same_everywhere(value) for name, value in inputs.items()}
    if not has_digest(inputs):
        kept["fingerprint"] = document.get("fingerprint")
    return {"fields": sorted(document), **kept}


def has_digest(value: Any) -> bool:
    """Whether inputs have the digest of tensors, which another type of CPU computes otherwise."""
    if isinstance(value, dict):
        return any(has_digest(each) for each in value.values())
    return isinstance(value, str) and len(value) == 64


def same_everywhere(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: same_everywhere(each) for name, each in value.items()}
    return "<digest>" if has_digest(value) else value


@pytest.mark.slow
def test_a_federation_writes_what_it_wrote_before(undisturbed: Path) -> None:
    found = written(undisturbed)
    if os.environ.get("HANSA_UPDATE_GOLDEN") == "1":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    golden = json.loads(GOLDEN.read_text())
    assert sorted(found) == sorted(golden)
    for key, expected in golden.items():
        assert found[key] == expected, key
