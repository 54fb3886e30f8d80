"""`hansa model`: the digests by which a manifest names its base model and the adapter's shapes."""

from typing import TYPE_CHECKING

from hansa.cli.common import Format, Output, print_data, say
from hansa.cli.target import Manifest
from hansa.core.errors import InputError, PermanentError

if TYPE_CHECKING:
    from hansa.api.spec import FederationSpec


def model(
    file: Manifest,
    output: Output = Format.TABLE,
) -> None:
    """Print model.sha256 and adapter.shapes as a client here finds them.

    -o yaml and -o json print spec.model and spec.adapter with both, to paste into the manifest.
    Named there, they decide which base model and shapes count, and no majority does.
    """
    from hansa.manifests.load import load

    spec = load(file, here=False).spec
    digests = measure(spec)
    named = {"model.sha256": spec.model.sha256, "adapter.shapes": spec.adapter.shapes}
    for field, digest in named.items():
        if digest and digest != digests[field]:
            say(f"note: spec.{field}: got {digest}, expected {digests[field]}")
    if output is not Format.TABLE:
        base = {**spec.model.to_json(), "sha256": digests["model.sha256"]}
        adapter = {**spec.adapter.to_json(), "shapes": digests["adapter.shapes"]}
        print_data({"model": base, "adapter": adapter}, output)
        return
    for field, digest in digests.items():
        print(f"{field + ':':<15} {digest}")


def measure(spec: "FederationSpec") -> dict[str, str]:
    """Both digests, by the functions that a client checks them with."""
    from hansa.adapter.lora import shapes_digest
    from hansa_client.models import base_model, lora

    source = spec.model.source
    try:
        folder = base_model.resolve(source, spec.storage.s3 if spec.storage else None)
        digest = base_model.compute_digest(folder)
        say(f"loading {source}")
        base = base_model.load(source, folder, spec.training.cpu_threads)
        shapes = lora.shapes(base.model, spec.adapter)
    except PermanentError as error:
        raise InputError(error.message, error.hint) from error
    return {"model.sha256": digest, "adapter.shapes": shapes_digest(shapes)}
