"""What leaves with an adapter: the base as others know it, figures, and nothing private."""

import json
import re
from xml.etree import ElementTree

import pytest
import yaml

from hansa.adapter import model_card
from hansa.adapter.lora import BaseName
from hansa.api import bucket_keys
from hansa.core.errors import InputError
from hansa.publish import figures, parcel
from hansa.publish.parcel import GlobalAdapter
from hansa.report import data
from tests.support.tracked import SECRET, WORDS, make_tracked

FOLDER = "path:/home/somebody/models/base"
CONFIG = {"base_model_name_or_path": "/home/somebody/models/base", "r": 8, "revision": "old"}
BASE = BaseName("acme/base", "c" * 40)


def make_result(**spec):
    federation = make_tracked()
    changed = federation.spec.model_copy(
        update={"model": federation.spec.model.model_copy(update={"source": FOLDER}), **spec}
    )
    federation = federation.model_copy(update={"spec": changed})
    files = {bucket_keys.ADAPTER: b"tensors", bucket_keys.CONFIG: json.dumps(CONFIG).encode()}
    return GlobalAdapter(data=data.collect(federation, None, episodes=False), round=2, files=files)


def packed(result=None, base=BASE, license_="apache-2.0", **more):
    items = parcel.pack(result or make_result(), base, license_, **more)
    return {item.name: item.content for item in items}


def test_the_base_is_what_the_hub_calls_it_at_its_commit():
    config = json.loads(packed()[bucket_keys.CONFIG])
    assert (config["base_model_name_or_path"], config["revision"]) == BASE
    assert config["r"] == 8
    unpinned = json.loads(packed(base=BaseName("acme/base"))[bucket_keys.CONFIG])
    assert "revision" not in unpinned


def test_the_card_has_base_licence_table_curve_and_settings():
    text = packed(adapter="acme/agent")[model_card.NAME].decode()
    matter = yaml.safe_load(text.split("---\n")[1])
    assert matter["base_model"] == "acme/base"
    assert matter["license"] == "apache-2.0"
    assert "| maze | maze | 25.0 % (0.0 % to 100.0 %) | 52.0 % (38.5 % to 65.2 %) | 100 |" in text
    assert f"]({figures.CURVE})" in text
    assert "| setting | value | default |" in text
    assert 'PeftModel.from_pretrained(base, "acme/agent")' in text
    assert f'revision="{BASE.revision}"' in text


def test_the_curve_is_a_drawing_with_a_point_for_each_round():
    drawing = ElementTree.fromstring(packed()[figures.CURVE])  # noqa: S314  made here
    points = [e.get("points") for e in drawing.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(each.split()) for each in points] == [3, 3, 3]


def test_nothing_private_leaves():
    sample = model_card.FIRST.partition("\n")[2]  # the card's own, of no silo
    everything = b"\n".join(packed().values()).decode().replace(sample, "")
    for private in (SECRET, WORDS, "password", "/home/somebody", "s3://", "http://127"):
        assert private not in everything
    assert set(packed()) == set(parcel.FILES)


def test_settings_are_shown_where_they_are_numbers_or_plain_words():
    shown = figures._is_public
    assert shown("training.learningRate", 0.1)
    assert shown("training.learner", "sft")
    for path, value in (
        ("exploration.server.url", "internal"),
        ("exploration.apiKeySecret", "my-secret"),
        ("exploration.engine", "http://10.0.0.1:8000/v1"),
        ("training.teacher", "/models/teacher"),
        ("model.source", "tiny"),
        ("exploration.stop", "a sentence of a world"),
        ("training.options", {}),
    ):
        assert not shown(path, value), path


def test_names_stay_in_their_cells():
    assert figures._cell("a|b\n`c` <img> ![x](y)") == r"a\|b \`c\` \<img\> \!\[x\](y)"


def test_equal_runs_give_equal_bytes():
    assert packed() == packed()


def test_an_adapter_that_nobody_evaluated_says_so():
    result = make_result()
    later = GlobalAdapter(data=result.data, round=9, files=result.files)
    assert (
        "The adapter of round 9 has not been evaluated." in packed(later)[model_card.NAME].decode()
    )


@pytest.mark.parametrize(
    "source, asked, on_hub, expected",
    [
        ("hf:acme/base@v1", None, True, ("acme/base", "v1")),
        ("hf:acme/base@v1", "other/base", True, ("other/base", "")),
        ("path:/models/base", "acme/base@v2", True, ("acme/base", "v2")),
        ("builtin:tiny", None, False, ("builtin:tiny", "")),
    ],
)
def test_the_base_has_a_name_outside(source, asked, on_hub, expected):
    assert parcel.choose_base_name(source, asked, on_hub=on_hub) == expected


@pytest.mark.parametrize(
    "source, on_hub",
    [("path:/models/base", False), ("s3://bucket/base", False), ("builtin:tiny", True)],
)
def test_a_base_that_only_its_owner_finds_needs_a_name(source, on_hub):
    with pytest.raises(InputError, match="--base: got nothing") as refused:
        parcel.choose_base_name(source, None, on_hub=on_hub)
    assert not re.search("models/base|bucket/base", refused.value.message)


@pytest.mark.parametrize("asked", ["base", "/models/base", "acme/base@", "a/b/c"])
def test_a_name_that_the_hub_cannot_have_is_refused(asked):
    with pytest.raises(InputError, match=r"--base: got .* expected org/name"):
        parcel.choose_base_name("hf:acme/base", asked, on_hub=True)


def test_a_base_with_other_weights_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"ours")
    source, digest = f"path:{tmp_path}", parcel.Item("x", b"ours").sha256
    parcel.check_weights(source, BASE, {"model.safetensors": digest, "other.safetensors": "0"})
    with pytest.raises(InputError, match=r"acme/base, whose model.safetensors is not the one"):
        parcel.check_weights(source, BASE, {"model.safetensors": "0" * 64})
