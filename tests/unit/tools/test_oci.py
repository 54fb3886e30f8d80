"""Images as files: layers are stored once, archives leave out what is there, old tags go."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from tools import oci


def make_layer(name: str) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        header = tarfile.TarInfo(name)
        header.size = len(name)
        archive.addfile(header, io.BytesIO(name.encode()))
    made.seek(0)
    return made


@pytest.fixture
def layout(tmp_path: Path) -> oci.Layout:
    """A base, and an image on it."""
    made = oci.Layout(tmp_path)
    made.add("base:1", make_layer("base"), None)
    made.add("code:1", make_layer("code"), "base:1")
    return made


def export(layout: oci.Layout, *names: str, present: set[str] | None = None) -> dict[str, bytes]:
    archive = io.BytesIO()
    layout.export(list(names), archive, present or set())
    archive.seek(0)
    with tarfile.open(fileobj=archive) as members:
        return {m.name: members.extractfile(m).read() for m in members}  # type: ignore[union-attr]


def layers(layout: oci.Layout, name: str) -> list[str]:
    return [each["digest"] for each in layout.read(layout.require(name))["layers"]]


def test_an_image_has_its_parents_layers_below_its_own(layout: oci.Layout) -> None:
    assert layers(layout, "code:1")[:-1] == layers(layout, "base:1")
    config = layout.read(layout.read(layout.require("code:1"))["config"])
    assert config["rootfs"]["diff_ids"] == layers(layout, "code:1"), "uncompressed, so the same"
    assert len(config["history"]) == 2


def test_an_archive_names_its_images_as_containerd_does(layout: oci.Layout) -> None:
    index = json.loads(export(layout, "code:1")["index.json"])
    assert [each["annotations"][oci.FULL_NAME] for each in index["manifests"]] == [
        "docker.io/library/code:1"
    ]


def test_an_archive_leaves_out_what_the_receiver_has(layout: oci.Layout) -> None:
    base, own = layers(layout, "code:1")
    sent = export(layout, "code:1", present={base})
    assert f"blobs/sha256/{base.removeprefix('sha256:')}" not in sent
    assert f"blobs/sha256/{own.removeprefix('sha256:')}" in sent


def test_other_tags_of_an_image_go_with_their_blobs_and_other_images_stay(
    layout: oci.Layout,
) -> None:
    (old,) = set(layers(layout, "code:1")) - set(layers(layout, "base:1"))
    layout.add("code:2", make_layer("newer"), "base:1")
    layout.tidy(["code:2"])
    assert layout.find("code:1") is None
    assert layout.find("code:2") and layout.find("base:1")
    assert not layout.path({"digest": old}).exists()


def test_an_image_that_lost_a_layer_does_not_count(layout: oci.Layout) -> None:
    layout.path({"digest": layers(layout, "code:1")[0]}).unlink()
    assert layout.find("code:1") is None
    with pytest.raises(SystemExit, match="does not hold whole"):
        layout.require("code:1")


@pytest.mark.parametrize(
    "given, full",
    [
        ("hansa-client:1", "docker.io/library/hansa-client:1"),
        ("you/hansa-client:1", "docker.io/you/hansa-client:1"),
        ("registry.example/hansa-client:1", "registry.example/hansa-client:1"),
        ("localhost/hansa-client:1", "localhost/hansa-client:1"),
    ],
)
def test_a_name_without_a_registry_is_docker_hubs(given: str, full: str) -> None:
    assert oci.full_name(given) == full


def test_a_layer_on_compressed_ones_leaves_what_is_in_these_as_it_was(layout: oci.Layout) -> None:
    """A builder compresses layers: their digests are no longer those of what is in them."""
    entry = layout.require("base:1")
    manifest = layout.read(entry)
    [plain] = manifest["layers"]
    packed = gzip.compress(layout.path(plain).read_bytes(), mtime=0)
    manifest["layers"] = [layout.put(io.BytesIO(packed), f"{oci.LAYER}+gzip")]
    named = {"annotations": {oci.REFERENCE: "packed:1"}}
    layout.save([*layout.index(), layout.put_json(manifest, oci.MANIFEST) | named])
    layout.add("more:1", make_layer("more"), "packed:1")
    made = layout.read(layout.require("more:1"))
    inside = layout.read(made["config"])["rootfs"]["diff_ids"]
    assert inside == [plain["digest"], made["layers"][1]["digest"]]
    assert made["layers"][0] == manifest["layers"][0]
