"""The audit log: one entry for each aggregation, each with the digest of the one before.

Only the aggregator writes it, once for each round; every client reads its head and repeats it in
its update's manifest, so that silos are witnesses of what was written.

Limits: whoever holds the bucket and the aggregator's key can withhold the newest entries, which no
silo has seen yet. Entries are not signed so far.
"""

import os
import platform

from hansa import keys, manifest
from hansa.assignment import ENV_IMAGE
from hansa.manifest import AuditHead, MadeWith
from hansa.store.base import ObjectStore

LONGEST = 500
"""Characters of a version or an image at most; no real one is as long."""


def find_head(store: ObjectStore, prefix: str, before: int) -> AuditHead | None:
    """The newest entry of a round before this one; None where there is none yet."""
    root = keys.audit_root(prefix)
    rounds = [keys.number(root, key) for key in store.list(root)]
    earlier = [round_ for round_ in rounds if round_ is not None and round_ < before]
    if not earlier:
        return None
    newest = max(earlier)
    data = store.get(keys.audit_entry(prefix, newest))
    return AuditHead(round=newest, sha256=manifest.sha256(data))


def made_with(**versions: str) -> MadeWith:
    """What computes here: these versions, Python's, the kind of machine and the image."""
    known = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "image": os.environ.get(ENV_IMAGE, ""),
        **versions,
    }
    return {name: value[:LONGEST] for name, value in sorted(known.items()) if value}
