"""Merging adapters in local folders by the strategies, without a federation."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hansa.adapter import lora
from hansa.adapter.peft_folder import PeftFolder, open_folder, open_tensors
from hansa.adapter.second_moments import input_widths
from hansa.adapter.tensor_file import Shapes, TensorFile, TensorWriter
from hansa.api import bucket_keys
from hansa.api.aggregation import Aggregation
from hansa.api.bucket_documents import Diagnostics
from hansa.core.errors import InputError, PermanentError
from hansa_server import measure
from hansa_server.diagnostics import diagnose
from hansa_server.gate import UpdateRefused
from hansa_server.measure import measure_distance
from hansa_server.merge import WORKERS, MergeResult, merge
from hansa_server.merge_input import MergeInput, Update
from hansa_server.moments import open_moments
from hansa_server.strategies.flora import stacked
from hansa_server.strategies.regmean import regmean_stacked

UNEQUAL = frozenset({"svd", "flora", "regmean"})
"""Strategies that take adapters of unequal ranks and make one of any rank."""
WEIGHED = frozenset({"mean", "weighted-mean", "svd", "flora", "fedex", "norm-balanced"})
"""Strategies that use weights."""
MEANS = frozenset({"mean", "weighted-mean"})
"""Strategies whose result is not finite if a value of an update is not."""
OFFLINE = (
    "mean",
    "weighted-mean",
    "svd",
    "flora",
    "fedex",
    "regmean",
    "trimmed-mean",
    "median",
    "krum",
    "multi-krum",
    "norm-balanced",
)
"""The others need a federation's rounds, or the start adapter that all updates share."""
STACKED = {"flora": stacked, "regmean": regmean_stacked}
"""Strategies that add to a frozen part in a federation, and make a single adapter here."""


@dataclass(frozen=True, kw_only=True)
class MergeOrder:
    """What to merge, and how."""

    folders: Sequence[Path]
    """The adapters."""
    weights: Sequence[float]
    """The adapters' weights, in the same order; empty: equal."""
    settings: Aggregation
    """Strategy and its parameters."""
    rank: int | None = None
    """Rank of the result, where the strategy leaves it open."""
    out: Path
    """Folder to write; it must be new or empty."""


@dataclass(frozen=True, kw_only=True)
class MergeOutcome:
    """What was merged, and the result."""

    folders: list[PeftFolder]
    """The adapters, sorted by their paths."""
    rank: int
    """Rank of the result."""
    result: MergeResult
    """The merge's figures."""
    diagnostics: Diagnostics | None
    """How the adapters relate to the result."""


def combine(order: MergeOrder, progress: Callable[[int, int], None] | None = None) -> MergeOutcome:
    """Merge the adapters of some folders into a new one."""
    check_order(order)
    pairs = sorted(zip(order.folders, order.weights or [1.0] * len(order.folders), strict=True))
    with ExitStack() as files, TemporaryDirectory(prefix="hansa-") as made:
        opened = [open_folder(path) for path, _ in pairs]
        for folder in opened:
            files.callback(folder.file.close)
        check_fit(order, opened)
        if order.settings.strategy not in MEANS:
            check_finite(opened)
        scratch = Path(made)
        task = _prepare_input(order, opened, [weight for _, weight in pairs], scratch, files)
        order.out.mkdir(parents=True, exist_ok=True)
        path = order.out / bucket_keys.ADAPTER
        strategy = STACKED.get(order.settings.strategy)
        try:
            result = merge(task, path, scratch / "state", progress, strategy)
        except PermanentError:  # a merge fails only because of values that are not finite
            check_finite(opened)
            raise
        rank = task.rank + result.frozen_rank
        _write_config(opened[0], rank, order.out)
        diagnostics = None
        if order.settings.diagnostics:
            merged = files.enter_context(lora.open_file(path))
            diagnostics = diagnose(task, merged, None, opened[0].scale)
    return MergeOutcome(folders=opened, rank=rank, result=result, diagnostics=diagnostics)


def check_order(order: MergeOrder) -> None:
    """Refuse invalid options before a file is opened."""
    strategy = order.settings.strategy
    if order.weights and len(order.weights) != len(order.folders):
        got, wanted = len(order.weights), len(order.folders)
        raise InputError(f"--weights: got {got}, expected {wanted}, one for each adapter")
    if order.weights and strategy not in WEIGHED:
        raise InputError(f"--weights: got them with {strategy}, which weighs nothing")
    if any(not 0 <= weight < float("inf") for weight in order.weights) or (
        order.weights and not any(order.weights)
    ):
        raise InputError("--weights: expected numbers of 0 or more, and one above 0")
    if order.rank is not None and strategy not in UNEQUAL:
        raise InputError(f"--rank: got it with {strategy}, expected svd, flora or regmean")
    if order.out.exists() and (not order.out.is_dir() or any(order.out.iterdir())):
        raise InputError(f"--out: got {order.out}, which is not empty, expected a new folder")


def check_fit(order: MergeOrder, opened: Sequence[PeftFolder]) -> None:
    """Refuse adapters that cannot be merged with one another."""
    first = opened[0]
    for other in opened[1:]:
        if other.file.layout is first.file.layout:
            continue
        if other.sizes() != first.sizes():
            raise InputError(
                f"{other.path}: got other layers than {first.path} has, expected the same"
            )
        strategy = order.settings.strategy
        if strategy not in UNEQUAL and other.rank != first.rank:
            raise InputError(
                f"--strategy: got {strategy}, which needs equal ranks, and {first.path} has "
                f"{first.rank}, {other.path} {other.rank}; svd, flora and regmean take unequal ones"
            )


def check_finite(opened: Sequence[PeftFolder]) -> None:
    """Refuse an adapter with values that are not finite: it would spoil or skew the result."""
    with ThreadPoolExecutor(WORKERS) as pool:
        looks = list(pool.map(measure.is_finite, [folder.file for folder in opened]))
    for folder, is_finite in zip(opened, looks, strict=True):
        if not is_finite:
            raise InputError(f"{folder.path}: got values that are infinite or no numbers")


def _prepare_input(
    order: MergeOrder,
    opened: Sequence[PeftFolder],
    weights: Sequence[float],
    scratch: Path,
    files: ExitStack,
) -> MergeInput:
    scale = opened[0].scale
    start = files.enter_context(
        _write_zeros(opened[0], _choose_rank(order, opened), scratch / "start")
    )
    updates = []
    for index, (folder, weight) in enumerate(zip(opened, weights, strict=True)):
        file = _rescale(folder, scale, scratch / f"{index}")
        files.callback(file.close)
        norm = measure_distance(file, start) if order.settings.strategy == "norm-balanced" else 0.0
        name = str(folder.path)
        moments = _open_moments(folder, files) if order.settings.needs_moments else None
        updates.append(
            Update(environment=name, file=file, weight=weight, norm=norm, moments=moments)
        )
    _check_inputs(updates)
    return MergeInput(start=start, updates=updates, settings=order.settings, round=1, seed=0)


def _open_moments(folder: PeftFolder, files: ExitStack) -> TensorFile:
    """The moments beside an adapter, which a federation's client writes."""
    path = folder.path / bucket_keys.MOMENTS
    try:
        with TensorFile(path) as file:
            is_sound = measure.is_finite(file)
            rank = max((entry.shape[0] for entry in file.layout.values()), default=1)
        made = open_moments(path, input_widths(folder.file.shapes), rank, is_finite=is_sound)
    except OSError as error:
        raise InputError(
            f"{folder.path}: got no {bucket_keys.MOMENTS} ({error.strerror}), expected the "
            "moments that a silo sends with regmean"
        ) from None
    except lora.AdapterError as error:
        raise InputError(f"{path}: {error.message}") from None
    except UpdateRefused as refused:
        raise InputError(f"{path}: {refused.detail}") from None
    files.callback(made.close)
    return made


def _check_inputs(updates: Sequence[Update]) -> None:
    """Refuse moments of other inputs than the first's."""
    files = [update.moments for update in updates if update.moments]
    for update, file in zip(updates, files, strict=False):
        if file.shapes != files[0].shapes:
            got, first = update.environment, updates[0].environment
            raise InputError(f"{got}: got moments of other inputs than {first} has")


def _choose_rank(order: MergeOrder, opened: Sequence[PeftFolder]) -> int:
    ranks = [folder.rank for folder in opened]
    if order.settings.strategy in STACKED:
        return min(sum(ranks), order.rank or sum(ranks))
    return order.rank or max(ranks)


def _write_zeros(like: PeftFolder, rank: int, path: Path) -> TensorFile:
    """An adapter of zeros, from which all changes are measured."""
    shapes: Shapes = {}
    for module, (out, width) in like.sizes().items():
        names = lora.tensor_names(module)
        shapes[names.a], shapes[names.b] = (rank, width), (out, rank)
    TensorWriter(path, shapes).close()
    return open_tensors(path)


def _rescale(folder: PeftFolder, scale: float, path: Path) -> TensorFile:
    """The adapter's tensors in fp32 for that scale: its own file, or a copy at `path`."""
    if folder.scale == scale and folder.dtypes == ["F32"]:
        return folder.file
    with TensorWriter(path, folder.file.shapes) as writer:
        for name in folder.file.layout:
            tensor = folder.file.read(name)
            factor = folder.scale / scale if lora.side(name) == "B" else 1.0
            writer.write(name, tensor * factor)
    return lora.open_file(path)


def _write_config(like: PeftFolder, rank: int, folder: Path) -> None:
    """The config of a merged adapter: the first one's, with its own rank and alpha."""
    alpha = like.scale * rank
    document = {
        **like.config,
        "inference_mode": True,
        "lora_alpha": int(alpha) if alpha.is_integer() else alpha,
        "r": rank,
        "rank_pattern": {},
        "target_modules": like.modules,
        "use_rslora": False,
    }
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    (folder / bucket_keys.CONFIG).write_text(text)
