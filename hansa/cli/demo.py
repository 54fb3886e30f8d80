"""`hansa demo`: the five worlds, the builtin model and a few minutes of one laptop."""

import json
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from hansa.cli.common import say
from hansa.cli.run import RunArguments, carry_out
from hansa.cli.target import Out, Parallel

MANIFEST = Path(__file__).with_name("demo.yaml")
FIGURES = Path(__file__).with_name("demo_figures.json")
"""What its silos have alone, and what they share: measured once, by the command that it names."""


def demo(
    out: Out = None,
    parallel: Parallel = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="Random seed, instead of the manifest's."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Number of rounds, instead of the manifest's."),
    ] = None,
    print_manifest: Annotated[
        bool, typer.Option("--print", help="Print the manifest instead of running it.")
    ] = False,
) -> int:
    """Watch five worlds make one small agent better, within a few minutes on two cores."""
    from hansa.local.rundir import DEFAULT_ROOT, RunDir
    from hansa.manifests.load import load

    if print_manifest:
        print(MANIFEST.read_text(), end="")
        return 0
    federation = load(MANIFEST)
    changes = {"seed": seed, "rounds": rounds}
    spec = federation.spec.model_copy(update={k: v for k, v in changes.items() if v is not None})
    federation = federation.model_copy(update={"spec": spec})
    folder = RunDir(out or DEFAULT_ROOT / federation.metadata.name)
    folder.prepare()
    say("five worlds, one agent: no trajectory leaves its environment, only adapters do")
    code = carry_out(federation, folder, RunArguments(embedded=True, parallel=parallel))
    if not code and folder.load().status.completed == load(MANIFEST).spec.rounds:
        print_kept_figures()
    return code


def print_kept_figures() -> None:
    """Kept figures of many runs: one run of each would take a few minutes more, and say less."""
    figures = json.loads(FIGURES.read_text())
    say(f"\nmean of three seeds, 300 tasks a world, by `{figures['command']}`:")
    for name in ("alone", "shared"):
        success = figures[name]
        shown = "  ".join(f"{world} {share:4.0%}" for world, share in success.items())
        say(f"  {name + ':':8} {fmean(success.values()):.1%}  {shown}")
