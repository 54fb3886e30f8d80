"""Who can take part in a round: environments of this cluster, and silos elsewhere that wrote."""

from hansa.api.spec import Environment, FederationSpec
from hansa.api.status import FederationStatus


def there(spec: FederationSpec, status: FederationStatus) -> list[Environment]:
    """Environments that the next round can open with, sorted by name."""
    present = {member.name for member in status.members if member.state == "Present"}
    able = [e for e in spec.environments if e.member is None or e.name in present]
    return sorted(able, key=lambda e: e.name)


def waits_for(spec: FederationSpec, status: FederationStatus) -> str:
    """Why no round can open yet, as a sentence; empty: enough are there.

    So a night without silos is a wait, and not one failed round after another.
    """
    minimum = spec.participation.minimum_updates or len(spec.environments)
    able = {e.name for e in there(spec, status)}
    if len(able) >= minimum:
        return ""
    states = {member.name: member.state for member in status.members}
    missing = [
        f"{e.name} ({states.get(e.name, 'Invited')})"
        for e in sorted(spec.environments, key=lambda e: e.name)
        if e.name not in able
    ]
    return f"{len(able)} of {minimum} needed are there, waits for {', '.join(missing)}"
