"""Golden values of the accountant's test, by dp-accounting, which wants an environment of its own.

python3 -m venv /tmp/dp && /tmp/dp/bin/pip install dp-accounting==0.6.0
/tmp/dp/bin/python tools/privacy_golden.py > tests/unit/hansa/api/dp_golden.json
"""

import json

from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

CASES = [
    (1.0, 1.0, 20, 1e-5),
    (1.0, 2.0, 20, 1e-5),
    (1.0, 4.0, 20, 1e-5),
    (1.0, 4.0, 21, 1e-3),
    (0.14, 0.5, 40, 1e-3),
    (0.14, 1.0, 40, 1e-3),
    (0.14, 2.0, 40, 1e-3),
    (0.1, 1.0, 400, 1e-5),
    (0.1, 2.0, 800, 1e-6),
    (0.01, 0.8, 2000, 1e-5),
    (0.01, 4.0, 100, 1e-7),
    (0.5, 8.0, 1000, 1e-5),
    (0.9, 3.0, 50, 1e-4),
]
"""Rate, noise multiplier, steps, delta."""


def main() -> None:
    """Print each case with both of dp-accounting's answers."""
    rows = []
    for rate, noise, steps, delta in CASES:
        event = SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps)
        row = {"rate": rate, "noise": noise, "steps": steps, "delta": delta}
        for name, accountant in (("rdp", RdpAccountant()), ("pld", PLDAccountant())):
            row[name] = round(accountant.compose(event).get_epsilon(delta), 6)
        rows.append(row)
    print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")


if __name__ == "__main__":
    main()
