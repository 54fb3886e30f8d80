"""What status.accepted remembers of a spec: the fields that a run can never change."""

from typing import Any

from hansa.api.spec import FederationSpec, differences
from hansa.api.storage import Storage
from hansa.core.canonical import fingerprint

OPTIONS = "options"
"""Where status.accepted has digests of the worlds' options: they decide what a silo's client does,
so an Event names those that change."""


def immutable_fields(spec: FederationSpec, accepted: dict[str, Any]) -> dict[str, Any]:
    """What a run can never change, as its status remembers it.

    Environments that left stay in it: a name that comes back finds its old experience.
    """
    environments = {
        e.name: {
            "world": e.world,
            "experienceStorage": _private_place(e.experience_storage),
            **({"maskingKey": e.masking_key} if e.masking_key else {}),
        }
        for e in spec.environments
    }
    # Rounds without privacy before or after those with it would make epsilon wrong.
    privacy = {"privacy": {"unit": spec.privacy.unit}} if spec.privacy else {}
    return {
        **privacy,
        "seed": spec.seed,
        "model": spec.model.identity(),
        "adapter": spec.adapter.to_json(),
        "storage": _place(spec.storage),
        "environments": {**accepted.get("environments", {}), **environments},
        "rounds": spec.rounds,
    }


def _place(storage: Storage | None) -> dict[str, Any]:
    """Where objects are; the same place may get another address, certificate or key."""
    return {"s3": {"bucket": storage.s3.bucket, "prefix": storage.s3.prefix}} if storage else {}


def _private_place(storage: Storage | None) -> dict[str, Any]:
    """With its address: changing it would send the silo's trajectories elsewhere."""
    place = _place(storage)
    if storage:
        place["s3"]["endpoint"] = storage.s3.endpoint or ""
    return place


def immutable_changes(accepted: dict[str, Any], spec: FederationSpec) -> list[str]:
    """One sentence for each immutable field that differs from what was accepted before."""
    if not accepted:
        return []
    now = immutable_fields(spec, accepted)
    joined = now["environments"].keys() - accepted["environments"].keys()
    now["environments"] = {n: e for n, e in now["environments"].items() if n not in joined}
    return [
        f"spec.{path}: got {ours}, expected {theirs} or more (rounds only grow)"
        if path == "rounds"
        else f"spec.{path}: got {_format_value(ours)}, expected {_format_value(theirs)} "
        "(it cannot change after the first round)"
        for path, theirs, ours in differences({**accepted, OPTIONS: None}, now)
        if (path != "rounds" or ours < theirs) and not _is_first_key(path, theirs)
    ]


def compute_option_digests(spec: FederationSpec, accepted: dict[str, Any]) -> dict[str, str]:
    """What the status remembers of all options; of environments that left, too."""
    now = {e.name: fingerprint(e.options) for e in spec.environments}
    return {**accepted.get(OPTIONS, {}), **now}


def list_changed_options(spec: FederationSpec, accepted: dict[str, Any]) -> list[str]:
    """Environments whose options are other ones than those last accepted, sorted."""
    before = accepted.get(OPTIONS, {})
    now = compute_option_digests(spec, accepted)
    return sorted(name for name in before if before[name] != now[name])


def _format_value(value: Any) -> Any:
    return "nothing" if value is None else value


def _is_first_key(path: str, accepted: Any) -> bool:
    """A silo may get a masking key later, and then keeps it."""
    return path.endswith(".maskingKey") and accepted is None
