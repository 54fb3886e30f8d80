"""`hansa privacy`: what a run will have given away of one record, before anything runs."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data
from hansa.cli.target import Manifest
from hansa.core.errors import InputError

if TYPE_CHECKING:
    from hansa.api.privacy import Privacy
    from hansa.api.spec import FederationSpec


def privacy(
    file: Manifest,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="EPSILON",
            help="Print a silo's own budget.json of this epsilon instead.",
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Print what spec.privacy costs: steps, noise, and epsilon of each silo after its rounds.

    Failed rounds are paid for, too, and are not in the forecast.
    """
    from hansa.manifests.load import load

    spec = load(file, here=False).spec
    asked = spec.privacy
    if asked is None:
        raise InputError(
            f"{file}: spec.privacy: got nothing, expected it, for example "
            "{epsilon: 8, delta: 1.0e-5}"
        )
    if budget is not None:
        print_data(_build_budget(asked, budget), Format.JSON if output is Format.TABLE else output)
        return
    document = build_forecast(spec, asked)
    if output is Format.TABLE:
        _print_table(document)
    else:
        print_data(document, output)


def _build_budget(asked: "Privacy", epsilon: float) -> dict[str, Any]:
    from pydantic import ValidationError

    from hansa.api.privacy_ledger import Budget

    try:
        return Budget(unit=asked.unit, epsilon=epsilon, delta=asked.delta).to_json()
    except ValidationError:
        raise InputError(f"--budget: got {epsilon:g}, expected above 0 and up to 1000") from None


def build_forecast(spec: "FederationSpec", asked: "Privacy") -> dict[str, Any]:
    """The forecast as plain data."""
    from hansa.api import privacy_checks as settings
    from hansa.api import privacy_forecast

    rows = privacy_forecast.forecast_costs(spec, asked)
    return {
        "unit": asked.unit,
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "noiseMultiplier": privacy_forecast.find_noise(spec, asked),
        "clipNorm": asked.clip_norm,
        "samplingRate": asked.sampling_rate,
        "evaluationNoise": asked.evaluation_noise,
        "rounds": [
            {
                "rounds": row.rounds,
                "steps": row.steps,
                "training": round(row.training, 4),
                "evaluation": round(row.evaluation, 4),
            }
            for row in rows
        ],
        "environments": [
            {
                "name": environment.name,
                "units": settings.max_units(spec, asked, environment),
                "epsilon": round(max(rows[-1].training, rows[-1].evaluation), 4),
            }
            for environment in spec.environments
        ],
    }


def _print_table(document: dict[str, Any]) -> None:
    print(
        f"unit {document['unit']}, delta {document['delta']:g}, clipNorm {document['clipNorm']:g}, "
        f"samplingRate {document['samplingRate']:g}, evaluationNoise "
        f"{document['evaluationNoise']:g}, budget {document['epsilon']:g}\n"
    )
    print(f"{'ROUNDS':>6}  {'STEPS':>8}  {'NOISE':>8}  {'TRAINING':>8}  {'HELD OUT':>8}")
    for row in document["rounds"]:
        print(
            f"{row['rounds']:>6}  {row['steps']:>8}  {document['noiseMultiplier']:>8g}  "
            f"{row['training']:>8.3f}  {row['evaluation']:>8.3f}"
        )
    print(f"\n{'ENVIRONMENT':<30}  {'UNITS':>8}  {'EPSILON':>8}")
    for silo in document["environments"]:
        print(f"{silo['name']:<30}  {silo['units']:>8}  {silo['epsilon']:>8.3f}")
