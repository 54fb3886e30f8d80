"""Auditing packages: a database that could not be asked is never taken for a clean answer."""

from typing import Any

import pytest

from tools import audit_packages

CLEAN = {"name": "numpy", "version": "2", "vulns": []}
BAD = {"name": "rich", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
SKIPPED = {"name": "torch", "skip_reason": "Dependency not found on PyPI: torch (2)"}
UNREACHED = "the database (pypi) cannot be reached from here: nothing was audited"


@pytest.mark.parametrize(
    "packages, code, lines",
    [
        pytest.param([CLEAN], 0, ["1 packages audited, 0 known vulnerabilities"], id="clean"),
        pytest.param(
            [CLEAN, BAD],
            1,
            ["rich 1: PYSEC-1 (fixed in 1.1)", "2 packages audited, 1 known vulnerabilities"],
            id="a known one",
        ),
        pytest.param(None, 3, [UNREACHED], id="no report"),
        pytest.param([SKIPPED], 3, [UNREACHED], id="all skipped, which pip-audit calls clean"),
        pytest.param(
            [CLEAN, SKIPPED],
            3,
            [
                "not audited, for pypi does not know them: torch",
                "1 packages audited, 0 known vulnerabilities",
            ],
            id="one skipped",
        ),
    ],
)
def test_the_verdict_counts_what_was_asked(
    packages: list[dict[str, Any]] | None, code: int, lines: list[str]
) -> None:
    report = None if packages is None else {"dependencies": packages}
    assert audit_packages.verdict(report, "pypi") == (code, lines)
