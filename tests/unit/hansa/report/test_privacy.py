"""The page of a run with privacy: a curve of epsilon, and no figure that the silos keep."""

import json
import re

from hansa.api.status import Federation
from hansa.report.data import _parse_part
from hansa.report.page import render
from hansa.report.run_facts import EnvironmentRound, ReportData, Round
from tests.support.builders import make_federation

PRIVATE = {
    "privacy": {"epsilon": 8.0, "delta": 1e-4},
    "training": {"maxSteps": 4},
    "environments": [
        {"name": "maze", "world": "maze", "experienceStorage": {"s3": {"bucket": "own"}}}
    ],
}


def page(federation: Federation, parts: dict[str, EnvironmentRound]) -> str:
    rounds = (Round(number=1, outcome="aggregated", parts=parts, members=("maze",)),)
    return render(ReportData(federation=federation, rounds=rounds))


def test_a_member_with_privacy_says_its_epsilon_and_nothing_it_keeps() -> None:
    counts = {"explored": 64, "succeeded": 0, "kept": 0, "steps": 4, "experience": 0}
    given = {"counts": counts, "norm": 0.5, "loss": 0.0, "privacy": {"epsilon": 2.5}}
    part = _parse_part({**given, "seconds": {}})
    assert (part.explored, part.steps, part.norm, part.epsilon) == (64, 4, 0.5, 2.5)
    assert part.succeeded is part.kept is part.experience is part.loss is None


def test_the_page_has_the_curve_and_leaves_out_what_stays_in_the_silos() -> None:
    shown = page(
        make_federation("maze", **PRIVATE), {"maze": EnvironmentRound(explored=64, epsilon=2.5)}
    )
    assert "Epsilon after each round" in shown
    assert "how many were successful stays in the silos" in shown
    assert "None of the" not in shown and "none of its" not in shown
    assert 'id="experience"' not in shown
    data = re.search(r'id="hansa-data"[^>]*>(.*?)</script>', shown, flags=re.DOTALL)
    assert data
    assert json.loads(data[1])["environments"]["maze"]["epsilon"] == [2.5]


def test_without_privacy_the_page_says_nothing_of_it() -> None:
    shown = page(make_federation("maze"), {"maze": EnvironmentRound(explored=64, succeeded=3)})
    assert "Epsilon" not in shown and '"epsilon"' not in shown
