"""Names of Jobs and processes, derived from round, environment and attempt, never random.

A deterministic name makes creating a Job safe to repeat: the second creation finds the first.
"""

import hashlib
import re

MAX_NAME = 63
_DIGEST = 8


def fit(name: str, limit: int = MAX_NAME) -> str:
    """The name itself, or its head and a digest of the whole when it is too long for a label."""
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: limit - _DIGEST - 1].rstrip('-.')}-{digest}"


def client_job(federation: str, round_: int, environment: str, attempt: int) -> str:
    """Job of one environment's attempt at one round."""
    return fit(f"{federation}-r{round_}-{environment}-a{attempt}")


def aggregator_job(federation: str, round_: int, attempt: int) -> str:
    """Job that aggregates one round; no environment may be called `aggregator`."""
    return fit(f"{federation}-r{round_}-aggregator-a{attempt}")


def evaluate_job(federation: str, adapter_round: int, environment: str, attempt: int) -> str:
    """Job that only evaluates the last adapter on one environment."""
    return fit(f"{federation}-e{adapter_round}-{environment}-a{attempt}")


def courier_job(federation: str, attempt: int) -> str:
    """Job that carries letters to and from silos that run elsewhere."""
    return fit(f"{federation}-mail-a{attempt}")


def silo_job(member: str, role: str, round_: int, serial: int, attempt: int) -> str:
    """Job of a silo's attempt at one order; a repeated order has another serial.

    A silo is usually called as its federation, whose coordinator may be in the same namespace.
    """
    kind = "e" if role == "evaluate" else "r"
    return fit(f"{member}-silo-{kind}{round_}-s{serial}-a{attempt}")


def round_of_silo_job(name: str) -> int:
    """The round in such a name; 0 where the name was too long to have one."""
    parts = re.search(r"-silo-[re]([0-9]+)-s[0-9]+-a[0-9]+$", name)
    return int(parts[1]) if parts else 0


def silo_courier_job(member: str, attempt: int) -> str:
    """Job that carries a silo's letters."""
    return fit(f"{member}-silo-mail-a{attempt}")
