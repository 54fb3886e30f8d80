"""What is allowed in a spec and yet worth a warning when it is accepted, by the Event's reason."""

from hansa.api.constants import EventReason
from hansa.api.spec import FederationSpec
from hansa.plan.policy import encrypted, misspelled


def warnings(spec: FederationSpec) -> list[tuple[EventReason, str]]:
    """Reasons and sentences, in the order in which they are told."""
    return [
        *(("NotEncrypted", each) for each in encrypted.warnings(spec)),
        *(("MaybeMisspelled", each) for each in misspelled.warnings(spec)),
    ]
