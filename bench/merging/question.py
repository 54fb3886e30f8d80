"""Is merging by second moments better than the mean with an adaptive step? One federation, played.

    python bench/merging/question.py --federation examples/04-real-model/federation.yaml \\
        --merge regmean --seed 1 --epochs 4 --temperature 0.5 --circles skip --out regmean-1.json

All silos of a manifest, or of a comparison's file, in one process that loads the model once: they
play, choose and train by the client's own code, one after another, and their updates are merged in
memory. Nothing of it is a contract of the product. The result is rewritten after each round.
"""

import os

# Before numpy is imported: with threads of its own it compresses layers 60 times slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import check
from federation import Play

from hansa.api.spec import FederationSpec
from hansa.compare import methods
from hansa.core.errors import HansaError, InputError
from hansa.manifests import load


def read_arguments() -> argparse.Namespace:
    """The flags; those that are absent leave a setting to the manifest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--federation", type=Path, help="a manifest, or a comparison's file")
    parser.add_argument("--out", type=Path, help="the result, a JSON file")
    parser.add_argument("--merge", choices=("mean", "auto", "regmean"), default="mean")
    parser.add_argument(
        "--most-step", type=float, metavar="X", help="no step that fits itself is longer than this"
    )
    parser.add_argument("--alone", action="store_true", help="no merge: each silo evolves alone")
    parser.add_argument("--pooled", action="store_true", help="one silo has all worlds")
    parser.add_argument(
        "--copies", type=_positive, default=1, metavar="N", help="silos of each environment"
    )
    parser.add_argument(
        "--home",
        action="store_true",
        help="explore with the own update where it does better on validation tasks than the shared",
    )
    parser.add_argument("--seed", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--max-steps", type=int, help="of a silo's training in a round; 0: all")
    parser.add_argument("--temperature", type=float, help="while exploring")
    parser.add_argument("--circles", choices=("skip", "keep"), default="keep")
    parser.add_argument(
        "--no-explore", dest="explore", action="store_const", const=0, help="demonstrations only"
    )
    parser.add_argument(
        "--momentsRank",
        dest="moments_rank",
        type=_positive,
        metavar="K",
        help="moments by their K largest directions and a flat rest; absent: whole",
    )
    parser.add_argument(
        "--trace",
        action="store_true",
        help="moments divided by their trace, so that no silo's count more than another's",
    )
    parser.add_argument("--tasks", type=int, help="held-out tasks of each evaluation")
    parser.add_argument(
        "--split",
        nargs="+",
        choices=("test", "validation"),
        default=["test"],
        help="held-out tasks to play; settings are chosen by validation alone",
    )
    parser.add_argument(
        "--stop-after",
        type=_positive,
        metavar="SECONDS",
        help="begin no round that would end later; the last evaluation still follows",
    )
    parser.add_argument(
        "--sampled-only", action="store_true", help="play nothing greedily at the end"
    )
    parser.add_argument("--check", action="store_true", help="check the formulas and end")
    given = parser.parse_args()
    if not given.check and not (given.federation and given.out):
        parser.error("--federation and --out are needed")
    return given


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"got {text}, expected a whole number from 1 on")
    return int(text)


def read_spec(given: argparse.Namespace) -> FederationSpec:
    """The manifest's spec, or a comparison's, with what the flags set; checked as the product's."""
    document, spec = read_document(given.federation)
    spec = methods.merge_documents(spec, _patch(given))
    if given.copies > 1:
        spec["environments"] = [
            {**each, "name": f"{each['name']}-{number}"}
            for each in spec["environments"]
            for number in range(1, given.copies + 1)
        ]
    if given.pooled:
        spec = methods.pool_environments(spec)
    return checked(document, spec, given.federation)


def read_document(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A manifest, and its spec without stores, as a comparison's file changes it for all."""
    document = load.read(path)
    patches: list[Any] = []
    if isinstance(document, dict) and "kind" not in document and "federation" in document:
        patches.append(document.get("spec", {}))
        document = load.read(path.parent / str(document["federation"]))
    if not isinstance(document, dict) or not isinstance(document.get("spec"), dict):
        load.build(document, str(path))  # says what is wrong with it
    spec = methods.drop_stores(document["spec"])
    spec.pop("guard", None)
    for patch in patches:
        spec = methods.merge_documents(spec, patch)
    return document, spec


def checked(document: dict[str, Any], spec: dict[str, Any], path: Path) -> FederationSpec:
    """The spec as the product reads it; refused where Play cannot do what it says."""
    federation = load.build({**document, "spec": spec}, str(path))
    load.check_on_machine(federation)
    if federation.spec.training.optimizer_state != "fresh":
        raise InputError("spec.training.optimizerState: got keep, expected fresh")
    return federation.spec


def _patch(given: argparse.Namespace) -> dict[str, Any]:
    explored = {"temperature": given.temperature, "tasksPerRound": given.explore}
    trained = {
        "epochs": given.epochs,
        "learningRate": given.learning_rate,
        "maxSteps": given.max_steps,
    }
    parts: dict[str, Any] = {
        "seed": given.seed,
        "rounds": given.rounds,
        "exploration": given_only(explored),
        "experience": {"circles": given.circles},
        "training": given_only(trained),
        "evaluation": given_only({"tasks": given.tasks}),
        "aggregation": {"strategy": "mean", "serverStep": 1.0},
        "personalization": "none",
    }
    return given_only(parts)


def given_only(fields: dict[str, Any]) -> dict[str, Any]:
    """Without those that nobody has set."""
    return {name: value for name, value in fields.items() if value is not None}


def main() -> None:
    """Play one federation, or check the formulas."""
    begun = time.monotonic()
    given = read_arguments()
    if given.check:
        check.main()
        return
    try:
        spec = read_spec(given)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        Play(given, spec, begun).run()
    except HansaError as error:
        sys.exit(f"error: {error.message}" + (f"\n\nhint: {error.hint}" if error.hint else ""))


if __name__ == "__main__":
    main()
