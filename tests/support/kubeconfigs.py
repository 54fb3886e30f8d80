"""Kubeconfigs of one context."""

from pathlib import Path
from typing import Any

import yaml

CONTEXT = "home"


def write_kubeconfig(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    """A kubeconfig with one context, `home`, in namespace `team`; its path."""
    chosen = {"cluster": "c", "user": "u", "namespace": "team"}
    document = {
        "current-context": CONTEXT,
        "contexts": [{"name": CONTEXT, "context": chosen}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)
