"""What bench/privacy's scripts share: their flags, the spec these make, and the play itself."""

import os

# Before numpy is imported: runs share a machine, one core each.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "merging"))

import question
from federation import Play

from hansa.adapter.lora import Tensors
from hansa.api.spec import FederationSpec
from hansa.compare import methods
from hansa.core.errors import HansaError
from tools.pages import kept, privacy_tables

HERE = Path(__file__).parent
MOST_STEP = 4.0
"""No server step that fits itself is longer, as in the product."""
DEFAULTS: dict[str, Any] = {"unit": "task", "epsilon": 1000, "delta": 1e-4}
"""What a manifest without spec.privacy gets; the budget is so large that nobody is left out."""
STRATEGIES = ("mean", "ffa")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of one run; those that are absent leave a setting to the file."""
    parser.add_argument("--federation", type=Path, default=HERE / "tiny.yaml")
    parser.add_argument("--out", type=Path, required=True, help="the result, a JSON file")
    parser.add_argument("--sigma", type=float, help="noise multiplier; absent: no privacy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strategy", choices=STRATEGIES, default="mean", help="ffa trains B alone")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--steps", type=int, help="of a silo's training in a round")
    parser.add_argument("--demonstrations", type=int)
    parser.add_argument("--explore", type=int, help="tasks of a silo in a round")
    parser.add_argument("--tasks", type=int, help="held-out tasks of an evaluation")
    parser.add_argument("--clip", type=float, help="privacy.clipNorm")
    parser.add_argument("--rate", type=float, help="privacy.samplingRate")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--worlds", nargs="+", help="environments that take part; absent: all")
    own = {"moments_rank": None, "home": False, "trace": False, "alone": False, "stop_after": None}
    parser.set_defaults(merge="auto", most_step=MOST_STEP, sampled_only=True, split=["test"], **own)


def read_spec(given: argparse.Namespace) -> FederationSpec:
    """The file's spec as the flags change it; every silo has a store of its own."""
    document, spec = question.read_document(given.federation)
    privacy = {**DEFAULTS, **spec.pop("privacy", {})}
    spec = methods.merge_documents(spec, _patch(given))
    if given.worlds:
        spec["environments"] = [e for e in spec["environments"] if e["name"] in given.worlds]
    if given.sigma is not None:
        own = {"clipNorm": given.clip, "samplingRate": given.rate, "noiseMultiplier": given.sigma}
        spec["privacy"] = {**privacy, **question.given_only(own)}
        spec["storage"] = {"s3": {"bucket": "exchange"}}
        for environment in spec["environments"]:
            environment["experienceStorage"] = {"s3": {"bucket": environment["name"]}}
    return question.checked(document, spec, given.federation)


def _patch(given: argparse.Namespace) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "seed": given.seed,
        "rounds": given.rounds,
        "exploration": question.given_only({"tasksPerRound": given.explore}),
        "experience": question.given_only({"demonstrations": given.demonstrations}),
        "training": question.given_only(
            {"maxSteps": given.steps, "learningRate": given.learning_rate}
        ),
        "evaluation": question.given_only({"tasks": given.tasks, "greedy": False, "alone": False}),
        "aggregation": {"strategy": given.strategy, "serverStep": "auto"},
        "personalization": "none",
    }
    return question.given_only(parts)


class PrivatePlay(Play):
    """A federation whose result is looked at once more when it has ended."""

    more: dict[str, Any]
    """What a script adds to the result."""

    def __init__(self, given: argparse.Namespace, spec: FederationSpec, begun: float) -> None:
        self.more = {}
        super().__init__(given, spec, begun)

    @property
    def final(self) -> Tensors:
        """The shared adapter after the last round."""
        return next(iter(self._wholes.values()))

    def document(self) -> dict[str, Any]:
        """The result, with what each silo has given away of one record."""
        last = self._rounds[-1]["silos"] if self._rounds else {}
        own = {"sigma": self._given.sigma, "strategy": self._given.strategy}
        spent = {name: silo.get("epsilon") for name, silo in last.items()}
        whole = super().document()
        for name in ("federation", "out"):  # whoever keeps results need not know where they were
            whole["flags"][name] = Path(whole["flags"][name]).name
        return {**whole, **own, "epsilon": spent, **self.more}


def play(given: argparse.Namespace, make: Callable[..., PrivatePlay]) -> None:
    """Play one federation, as the flags say."""
    begun = time.monotonic()
    try:
        spec = read_spec(given)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        make(given, spec, begun).run()
    except HansaError as error:
        sys.exit(f"error: {error.message}" + (f"\n\nhint: {error.hint}" if error.hint else ""))


def read_results(folder: Path, wanted: str) -> list[dict[str, Any]]:
    """All results of a folder that have come to their end, and have what is wanted."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [
        each for each in found if each.get(wanted) and len(each["rounds"]) == each["spec"]["rounds"]
    ]


def command(
    doc: str | None,
    player: type[PrivatePlay],
    has: str,
    add_own: Callable[[argparse.ArgumentParser], None],
    summarized: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    table: Callable[[list[dict[str, Any]]], str],
) -> None:
    """`run` plays one federation; `show` makes the table of what is in folders of results."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="play one federation")
    add_flags(run)
    add_own(run)
    show = commands.add_parser("show", help="print the table of results")
    show.add_argument("folder", type=Path, nargs="+")
    show.add_argument("--json", type=Path, help="write the table's data there, too")
    given = parser.parse_args()
    if given.command == "run":
        play(given, player)
        return
    results = [each for path in given.folder for each in read_results(path, has)]
    lines = summarized(results)
    print(table(lines))
    if given.json:
        kept.write(given.json, privacy_tables.document(lines, results))
