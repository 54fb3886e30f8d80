"""`hansa aggregate`: one adapter out of several, outside any federation."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data, say
from hansa.core.errors import InputError

if TYPE_CHECKING:
    from hansa_server.offline import MergeOutcome


def aggregate(
    adapters: Annotated[
        list[Path], typer.Argument(metavar="ADAPTER", help="Folders of PEFT adapters.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write; it must be new or empty.")],
    strategy: Annotated[
        str, typer.Option(help="Rule: mean, svd, flora, fedex, regmean, trimmed-mean, median, ...")
    ] = "mean",
    weights: Annotated[
        str, typer.Option(help="Weight of each adapter, as 1,2,3 in their order; default: equal.")
    ] = "",
    rank: Annotated[
        int | None, typer.Option(min=1, help="Rank of the result, for svd, flora and regmean.")
    ] = None,
    trim: Annotated[
        float, typer.Option(min=0, max=0.49, help="For trimmed-mean: share left out at each end.")
    ] = 0.2,
    faulty: Annotated[
        int,
        typer.Option(min=0, max=48, help="For krum and multi-krum: hostile adapters to withstand."),
    ] = 1,
    diagnostics: Annotated[
        bool, typer.Option(help="Print how each adapter differs from the result.")
    ] = True,
    output: Output = Format.TABLE,
) -> None:
    """Merge adapters of one base model; PeftModel.from_pretrained loads the folder.

    svd, flora and regmean take adapters of different ranks; regmean needs the moments.safetensors
    that a federation with this strategy keeps beside each update.
    """
    from hansa.api.aggregation import Aggregation
    from hansa.api.strategies import BUILTIN
    from hansa_server.offline import OFFLINE, MergeOrder, combine

    if strategy not in OFFLINE:
        raise InputError(f"--strategy: got {strategy}, expected one of {', '.join(OFFLINE)}")
    read = {field.alias for field in BUILTIN[strategy].options.model_fields.values()}
    # what is merged here is trained no further: nothing is frozen
    given = {"trim": trim, "faulty": faulty, "maxRank": 4096}
    options = {name: value for name, value in given.items() if name in read}
    settings = Aggregation.model_validate(
        {"strategy": strategy, "options": options, "diagnostics": diagnostics}
    )
    order = MergeOrder(
        folders=adapters, weights=_parse_weights(weights), settings=settings, rank=rank, out=out
    )
    outcome = combine(order, _print_progress if sys.stderr.isatty() else None)
    if output is not Format.TABLE:
        print_data(_build_data(outcome, strategy, out), output)
        return
    _print_table(outcome)
    print(out)
    say(f"{strategy} of {len(adapters)} adapters, rank {outcome.rank}")


def _parse_weights(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")] if text else []
    except ValueError:
        raise InputError(f"--weights: got {text!r}, expected numbers as 1,2,3") from None


def _print_progress(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\r{done} of {total} layers", end=end, file=sys.stderr, flush=True)


def _build_data(outcome: "MergeOutcome", strategy: str, out: Path) -> dict[str, Any]:
    diagnostics = outcome.diagnostics
    return {
        "path": str(out),
        "strategy": strategy,
        "rank": outcome.rank,
        "compression": outcome.result.loss,
        "adapters": [{"path": str(folder.path), "rank": folder.rank} for folder in outcome.folders],
        "diagnostics": diagnostics.to_json() if diagnostics else None,
    }


def _print_table(outcome: "MergeOutcome") -> None:
    """How each adapter relates to the result; a cosine below 0 pulls against it."""
    diagnostics = outcome.diagnostics
    if diagnostics is None:
        return
    paths = [str(folder.path) for folder in outcome.folders]
    width = max(len("ADAPTER"), *(len(path) for path in paths))
    print(f"{'ADAPTER':<{width}}  RANK       NORM   SHARE  COSINE")
    for path, folder in zip(paths, outcome.folders, strict=True):
        norm, share = diagnostics.norms[path], diagnostics.share[path]
        cosine = diagnostics.cosine[path]
        print(f"{path:<{width}}  {folder.rank:>4}  {norm:>9.4g}  {share:>6.1%}  {cosine:>+6.3f}")
    print(f"norm {diagnostics.norm:.4g}, effective rank {diagnostics.effective_rank:.2f}")
    print(f"error against the exact mean of B·A: {diagnostics.error:.2%}")
