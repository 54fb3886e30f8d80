"""What a manifest changes in a run that has begun, field by field."""

from typing import Any, NamedTuple

from hansa.api.spec import FederationSpec, differences
from hansa.validation.messages import describe_value

_OF_NO_ROUND = {"suspend", "storage", "podTemplate"}
"""Fields of the spec that count at once, or on Kubernetes only."""
_OF_A_ROUND = {"world", "options", "demonstrations", "demonstrationsFrom"}
"""Fields of an environment that a round takes over when it opens."""
_NOTHING = "nothing"


class Change(NamedTuple):
    """One setting that differs, in words: a value that could be a secret only by its kind."""

    path: str
    """Its place in the manifest."""
    before: str
    """What the run has used so far."""
    after: str
    """What came."""

    def __str__(self) -> str:
        """What happens, as `spec.training.epochs: 1 -> 2`."""
        if self.path.startswith("spec.environments.") and self.path.count(".") == 2:
            return f"{self.path}: {'joins' if self.before == _NOTHING else 'leaves'}"
        same = self.before == self.after  # of two lists, or two secrets
        return f"{self.path}: " + ("changed" if same else f"{self.before} -> {self.after}")

    def refusal(self) -> str:
        """What is wrong with it where it can no longer change."""
        got_ = "another one" if self.before == self.after else self.after
        return f"{self.path}: got {got_}, expected {self.before}"


def settings_changed(old: FederationSpec, new: FederationSpec) -> list[Change]:
    """Each setting of a round that differs between two specs, sorted by path."""
    return [_change(*leaf) for leaf in differences(_settings(old), _settings(new))]


def _settings(spec: FederationSpec) -> dict[str, Any]:
    """All that a round takes over, environments by their names: their order means nothing."""
    document = {k: v for k, v in spec.to_json().items() if k not in _OF_NO_ROUND}
    environments = {
        e["name"]: {k: v for k, v in e.items() if k in _OF_A_ROUND}
        for e in document["environments"]
    }
    return {"guard": {}, **document, "environments": environments}


def _change(path: str, old: Any, new: Any) -> Change:
    parts = tuple(path.split("."))
    before, after = (
        _NOTHING if value is None else describe_value(value, parts) for value in (old, new)
    )
    return Change(f"spec.{path}", before, after)
