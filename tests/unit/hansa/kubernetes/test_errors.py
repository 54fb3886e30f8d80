"""Every answer of an apiserver that is no success is one sentence with a hint."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import Configuration

from hansa.core.errors import InputError
from hansa.core.exits import Exit
from hansa.kubernetes.client import ApiError, Kube
from hansa.kubernetes.errors import explain
from hansa.kubernetes.kubeconfig import Cluster, make_api

KUBE = Kube(
    lambda: Cluster(make_api(Configuration(host="http://127.0.0.1:1")), context="home"),
)
REFUSALS = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text())
NAMED = {"name": "fde", "kind": "federations"}


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row["case"])
def test_each_refusal_has_a_sentence_a_hint_and_an_exit(row: dict[str, Any]) -> None:
    answer = ApiError(row["status"], row["reason"], row.get("message", ""), row.get("details", {}))
    error = explain(answer, KUBE, lambda: ["fed"], "team")
    assert row["sentence"] in error.message
    assert "\n" not in error.message
    assert row.get("hint", "") in error.hint
    assert error.exit is Exit[row["exit"]]


def test_a_name_that_is_like_no_other_gets_a_way_to_look() -> None:
    error = explain(ApiError(404, "NotFound", "", NAMED), KUBE)
    assert isinstance(error, InputError)
    assert error.hint == "`hansa status -A` shows all there are"
