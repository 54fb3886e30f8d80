"""Who can take part in a round: environments of this cluster, and remote silos that wrote."""

from hansa.api.spec import Environment, FederationSpec
from hansa.api.status import FederationStatus


def list_present(spec: FederationSpec, status: FederationStatus) -> list[Environment]:
    """Environments that the next round can open with, sorted by name."""
    present = {member.name for member in status.members if member.state == "Present"}
    able = [e for e in spec.environments if e.member is None or e.name in present]
    return sorted(able, key=lambda e: e.name)


def explain_wait(spec: FederationSpec, status: FederationStatus) -> str:
    """Why no round can open yet, as a sentence; empty: enough are there.

    So no round fails only because too few silos are present.
    """
    minimum = spec.participation.minimum_updates or len(spec.environments)
    able = {e.name for e in list_present(spec, status)}
    if len(able) >= minimum:
        return ""
    states = {member.name: member.state for member in status.members}
    missing = [
        f"{e.name} ({states.get(e.name, 'Invited')})"
        for e in sorted(spec.environments, key=lambda e: e.name)
        if e.name not in able
    ]
    return f"{len(able)} of {minimum} needed are there, waits for {', '.join(missing)}"
