"""Files of an adapter as they are published."""

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.api.spec import Adapter
from hansa.publish.parcel import Item


def make_items() -> list[Item]:
    tensors = lora.init_adapter(_SHAPES, 8, seed=7)
    config = lora.render_config(Adapter(), "hf:acme/base@v1", lora.target_names(tensors))
    return [Item(bucket_keys.CONFIG, config), Item(bucket_keys.ADAPTER, lora.encode(tensors))]


_NAMES = lora.tensor_names("layers.0.q_proj")


_SHAPES = {_NAMES.a: (8, 16), _NAMES.b: (16, 8)}
