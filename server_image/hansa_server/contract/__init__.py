"""Checks of what every strategy guarantees, builtin or yours.

    pytest -p hansa.manifests.contract --pyargs hansa.manifests.contract --strategy NAME

A check raises StrategyContractError with what is wrong. Adapters are small and drawn from seeds.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api.aggregation import Aggregation
from hansa.api.strategies import BUILTIN
from hansa.core.errors import HansaError
from hansa_server import plugin
from hansa_server.contract.merging import ContractMerge, draw, make_shapes, open_task, run
from hansa_server.merge_input import Merged

SHAPES = {
    "one layer, rank 1": make_shapes(1, (3, 4)),
    "three layers, rank 4": make_shapes(4, (9, 7), (16, 24), (5, 40)),
    "rank above the size": make_shapes(8, (6, 5), (12, 30)),
}
COUNTS = (1, 2, 7)
"""Members of the rounds that are merged; a silo may be alone in one."""
STEPS = (1.0, 0.3, 3.0)
TOLERANCE = 1e-5


class StrategyContractError(Exception):
    """A strategy violates the contract of hansa_server.merge_input.Strategy."""


def _require(kept: bool, sentence: str) -> None:
    if not kept:
        raise StrategyContractError(sentence)


def make_case(shapes: lora.Shapes, count: int) -> tuple[Tensors, list[Tensors]]:
    """A trained start adapter, and members at different distances from it."""
    start = draw(100, shapes)
    moved = [
        {name: array + (0.2 + i) * draw(i, shapes)[name] for name, array in start.items()}
        for i in range(count)
    ]
    return start, [{n: a.astype(np.float32) for n, a in tensors.items()} for tensors in moved]


def _merge(
    settings: Aggregation, start: Tensors, updates: list[Tensors], **given: Any
) -> ContractMerge:
    return run(start, updates, **(settings.model_dump() | given))


def _multiply(tensors: Tensors) -> dict[str, NDArray[np.float64]]:
    wide = {name: array.astype(np.float64) for name, array in tensors.items()}
    names = {module: lora.tensor_names(module) for module in lora.target_names(tensors)}
    return {module: wide[pair.b] @ wide[pair.a] for module, pair in names.items()}


def _is_far(got: NDArray[np.float64], expected: NDArray[np.float64]) -> bool:
    scale = float(np.linalg.norm(expected)) or 1.0
    return float(np.linalg.norm(got - expected)) > TOLERANCE * scale


def equal_members_give_equal_bytes(settings: Aggregation) -> None:
    """Merged twice, the files are the same, whatever the process's random numbers are."""
    for title, shapes in SHAPES.items():
        start, updates = make_case(shapes, 7)
        made = []
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)  # what a strategy must not draw from
            made.append(_merge(settings, start, updates, server_step=2.0))
        _require(made[0].data == made[1].data, f"{title}: two merges differ")
        _require(
            _to_bytes(made[0].state) == _to_bytes(made[1].state), f"{title}: two memories differ"
        )


def _to_bytes(tensors: Tensors) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in tensors.items()}


def the_trained_part_has_the_starts_shapes(settings: Aggregation) -> None:
    """Of one, two and seven members, and every value is a number."""
    for title, shapes in SHAPES.items():
        for count in COUNTS:
            start, updates = make_case(shapes, count)
            made = _merge(settings, start, updates)
            got = {name: array.shape for name, array in made.trained.items()}
            _require(got == shapes, f"{title}, {count} members: got shapes {got}")
            finite = all(np.isfinite(array).all() for array in made.tensors.values())
            _require(finite, f"{title}, {count} members: a value is not a number")


def members_that_did_not_move_change_nothing(settings: Aggregation) -> None:
    """The products B·A stay where they were, with any step, on a frozen part too."""
    shapes = SHAPES["three layers, rank 4"]
    start = draw(5, shapes)
    frozen_shapes = make_shapes(3, (9, 7), (16, 24), (5, 40))
    for frozen in (None, draw(55, frozen_shapes)):
        old = _multiply(start)
        if frozen:
            old = {name: old[name] + more for name, more in _multiply(frozen).items()}
        for count in COUNTS:
            for step in STEPS:
                same = [start] * count
                still = _merge(settings, start, same, server_step=step, frozen=frozen)
                moved = [m for m, now in _multiply(still.tensors).items() if _is_far(now, old[m])]
                where = f"{count} members, step {step}, {'a' if frozen else 'no'} frozen part"
                _require(not moved, f"{where}: {moved[:1]} moved")


def layers_can_be_made_in_any_order(settings: Aggregation) -> None:
    """Each layer is the same in reverse order and when made again: threads use any order."""
    start, updates = make_case(SHAPES["three layers, rank 4"], 5)
    with open_task(start, updates, **settings.model_dump()) as (task, _):
        plan = plugin.get(settings)(task)
        forwards = {module: plan.layer(module) for module in task.modules}
        for module in reversed(task.modules):
            same = _collect_bytes(plan.layer(module)) == _collect_bytes(forwards[module])
            _require(same, f"layer {module} is another one when it is made again")


def _collect_bytes(merged: Merged) -> list[bytes]:
    pairs = [merged.trained, *([merged.frozen] if merged.frozen else []), *merged.moments.values()]
    return [np.ascontiguousarray(array).tobytes() for pair in pairs for array in pair]


def files_may_lie_in_any_order(settings: Aggregation) -> None:
    """A member whose file has its tensors in another order gives the same result."""
    start, updates = make_case(SHAPES["three layers, rank 4"], 3)
    usual = _merge(settings, start, updates)
    strange = _merge(settings, start, updates, strange=True)
    _require(usual.data == strange.data, "the order of tensors in a file changes the result")


def what_it_remembers_can_be_gone_on_from(settings: Aggregation) -> None:
    """A second round with the first one's memory merges, to equal bytes each time."""
    start, updates = make_case(SHAPES["three layers, rank 4"], 3)
    first = _merge(settings, start, updates)
    if not first.state:
        return
    _, next_updates = make_case(SHAPES["three layers, rank 4"], 4)
    given = {"state": first.state, "frozen": first.frozen or None}
    made = [_merge(settings, first.trained, next_updates, **given) for _ in range(2)]
    _require(made[0].data == made[1].data, "two merges with the same memory differ")


def a_step_that_fits_is_for_means(settings: Aggregation) -> None:
    """`serverStep: auto` works where a plug-in says that it is a mean, and is refused elsewhere."""
    if settings.strategy in BUILTIN:
        return
    start, (update, *_) = make_case(SHAPES["three layers, rank 4"], 1)
    auto = settings.model_copy(update={"server_step": "auto"})
    try:
        plugin.get(auto)
    except HansaError:
        return
    made = _merge(settings, start, [update] * 3, server_step="auto")
    theirs = _multiply(update)
    far = [m for m, now in _multiply(made.tensors).items() if _is_far(now, theirs[m])]
    _require(made.step == 1.0 and not far, "it says is_mean, but the mean of equals is another one")


def unknown_options_are_refused(settings: Aggregation) -> None:
    """An option that nobody reads is an error with its name."""
    wrong = {**(settings.options or {}), "noSuchOption": 1}
    try:
        plugin.get(settings.model_copy(update={"options": wrong}))
    except HansaError as error:
        _require("noSuchOption" in error.message, f"the refusal is: {error.message}")
    else:
        raise StrategyContractError("options.noSuchOption was taken")


def prepare(name: str, options: dict[str, object] | None) -> Aggregation:
    """The settings that the checks take; an error where there is no such strategy."""
    settings = Aggregation(strategy=name, options=options)
    plugin.get(settings)
    return settings


CHECKS: dict[str, Callable[[Aggregation], None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        equal_members_give_equal_bytes,
        the_trained_part_has_the_starts_shapes,
        members_that_did_not_move_change_nothing,
        layers_can_be_made_in_any_order,
        files_may_lie_in_any_order,
        what_it_remembers_can_be_gone_on_from,
        a_step_that_fits_is_for_means,
        unknown_options_are_refused,
    )
}
