"""Second moments of what layers are given, as a silo sends them beside its update.

For each input that adapted layers read, the mean of x·xᵀ over tokens: its largest directions, their
sizes, and one size for all directions that are left. Layers that read the same input (q, k and v,
or gate and up) share one; the names of its tensors say which they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hansa.adapter import lora, tensor_file
from hansa.adapter.tensor_file import AdapterError, Layout, Shapes

WHOLE = 128
"""Inputs of at most this width are sent with all directions: they are small, and small models
lose most without."""
_AND = "+"
"""Between the layers that read one input; no layer's name has it."""


class MomentNames(NamedTuple):
    """What the tensors of one input are called."""

    vectors: str
    """Directions, one a row, of length 1 and at right angles."""
    values: str
    """The mean squared size of the input along each."""
    rest: str
    """The same along every direction that is left: one number."""


Inputs = tuple[tuple[str, ...], ...]
"""The layers that read each input, sorted."""
Widths = Mapping[str, int]
"""Width of what each layer is given."""


def moment_names(layers: Sequence[str]) -> MomentNames:
    """Names of the tensors for the input that these layers read."""
    stem = _AND.join(sorted(layers))
    return MomentNames(f"{stem}.vectors", f"{stem}.values", f"{stem}.rest")


def count_directions(width: int, rank: int) -> int:
    """Directions that are sent of an input of that width, at the rank of the settings."""
    return width if width <= WHOLE else min(rank, width)


def moment_shapes(inputs: Iterable[Sequence[str]], widths: Widths, rank: int) -> Shapes:
    """Shapes of all tensors, for layers of these widths."""
    made: Shapes = {}
    for layers in inputs:
        named, width = moment_names(layers), widths[layers[0]]
        count = count_directions(width, rank)
        made |= {named.vectors: (count, width), named.values: (count,), named.rest: (1,)}
    return made


def input_widths(adapter_shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """What each adapted layer is given, by the shapes of an adapter."""
    modules = lora.target_names(adapter_shapes)
    return {module: adapter_shapes[lora.tensor_names(module).a][1] for module in modules}


def parse_inputs(layout: Iterable[str]) -> Inputs:
    """Which layers share an input, as the names of a file's tensors say."""
    stems = (name.removesuffix(".vectors") for name in layout if name.endswith(".vectors"))
    return tuple(sorted(tuple(stem.split(_AND)) for stem in stems))


def check_layout(layout: Layout, known: Widths, rank: int) -> None:
    """Refuse, by an AdapterError, what are no moments of these layers' inputs."""
    groups = parse_inputs(layout)
    listed = sorted(layer for layers in groups for layer in layers)
    if listed != sorted(known):
        odd = sorted(set(listed) ^ set(known)) or listed
        raise AdapterError(
            "name", f"{tensor_file.clip_printable(odd[0])}: expected each layer once"
        )
    for layers in groups:
        if len({known[layer] for layer in layers}) > 1:
            raise AdapterError("shape", f"{layers[0]}: got layers of several widths for one input")
    expected = moment_shapes(groups, known, rank)
    odd = sorted(expected.keys() ^ layout.keys())
    if odd:
        which = "new" if odd[0] in layout else "missing"
        raise AdapterError("name", f"{tensor_file.clip_printable(odd[0])} is {which}")
    for name, shape in expected.items():
        if layout[name].shape != shape:
            got = list(layout[name].shape)
            raise AdapterError("shape", f"{name}: got {got}, expected {list(shape)}")


def max_bytes(known: Widths, rank: int) -> int:
    """Size of the largest file: one in which every layer has an input of its own."""
    return tensor_file.data_size(moment_shapes([(layer,) for layer in known], known, rank))
