"""A federation with every figure that a status can have, and the ways to read trackers back."""

from hansa.api.status import Federation, FederationStatus
from tests.support.builders import later, make_federation

SECRET = "the-password-of-a-world"
WORDS = "Your current position is at position 5, 4."
"""What an episode says: no tracker may have it."""
IDENTITY = "0123456789abcdef0123456789abcdef"


def make_tracked(*, rounds: int = 2, phase: str = "Succeeded") -> Federation:
    """A federation of two silos after its last round, with messages that quote an episode."""
    names = ("maze", "wordle")
    federation = make_federation(
        *names,
        rounds=rounds,
        environments=[
            {"name": "maze", "world": "maze", "options": {"size": 6, "password": SECRET}},
            {"name": "wordle", "world": "wordle"},
        ],
    )
    history = [
        {"round": 0, "outcome": "base", "success": {"maze": 0.25, "wordle": 0.1}},
        *(
            {
                "round": number,
                "outcome": "aggregated",
                "message": WORDS,
                "openedAt": later(60 * number),
                "closedAt": later(60 * number + 45.5),
                "updates": "2/2",
                "serverStep": 1.5 + number,
                "success": {"maze": 0.5 + number / 100, "wordle": 0.3},
                "episodes": {"maze": 100, "wordle": 40},
                "effective": {"maze": 50.25},
                "validation": {"maze": 0.4, "wordle": 0.2},
                "own": {"maze": 0.45, "wordle": 0.35},
            }
            for number in range(1, rounds + 1)
        ),
    ]
    status = {
        "phase": phase,
        "round": rounds,
        "completed": rounds,
        "observedGeneration": 1,
        "evaluated": rounds,
        "updates": "2/2",
        "success": "0.410",
        "adapter": {"round": rounds, "uri": "s3://b/g", "sha256": "a" * 64},
        "best": {"round": rounds, "success": "0.410"},
        "guard": {"rollbacks": 1, "stepFactor": 0.5, "overruled": WORDS},
        "environments": [
            {
                "name": name,
                "state": "Updated",
                "explored": 64,
                "succeeded": 31,
                "broken": 2,
                "experience": 200 + place,
                "personal": "0.612",
                "alone": "0.550",
                "serves": "mix-25",
                "joined": WORDS,
                "message": WORDS,
            }
            for place, name in enumerate(names)
        ],
        "history": history,
    }
    return federation.model_copy(update={"status": FederationStatus.model_validate(status)})


Figures = dict[tuple[str, int], float]


def expected(federation: Federation) -> dict[str, Figures]:
    """Every figure of a status by run, metric and round, spelled out from the status itself."""
    status, names = federation.status, [e.name for e in federation.spec.environments]
    whole: Figures = {}
    silos: dict[str, Figures] = {name: {} for name in names}
    for entry in status.history:
        for metric in ("success", "validation", "own"):
            values = getattr(entry, metric)
            if set(values) == set(names):
                whole[metric, entry.round] = sum(values.values()) / len(values)
        for metric in ("success", "episodes", "effective", "validation", "own"):
            for name, value in getattr(entry, metric).items():
                silos[name][metric, entry.round] = value
        for name in entry.own.keys() & entry.success.keys():
            silos[name]["gain", entry.round] = round(entry.success[name] - entry.own[name], 4)
        if entry.updates:
            members, environments = entry.updates.split("/")
            whole["updates", entry.round] = int(members)
            whole["environments", entry.round] = int(environments)
        if entry.server_step is not None:
            whole["serverStep", entry.round] = entry.server_step
        if entry.opened_at and entry.closed_at:
            seconds = (entry.closed_at - entry.opened_at).total_seconds()
            whole["seconds", entry.round] = seconds
    for line in status.environments:
        for metric in ("explored", "succeeded", "broken", "experience"):
            silos[line.name][metric, status.round] = getattr(line, metric)
        for metric in ("personal", "alone"):
            if text := getattr(line, metric):
                silos[line.name][metric, status.evaluated] = float(text)
    return {"": whole, **silos}
