"""A clinic whose courier fails."""

from hansa.api.silo_assignment import SiloReport
from tests.support.clinic import Clinic


def fail(clinic: Clinic, exit_code: int, **report) -> Clinic:
    """The courier ends with an exit code, and with what it could say."""
    said = SiloReport(**report) if report else None
    return clinic.set(clinic.courier, "failed", exit_code=exit_code, report=said).turn()
