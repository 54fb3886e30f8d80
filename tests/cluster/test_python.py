"""`hansa.read_status` and `hansa.pull` of a federation on a real apiserver, by its name."""

from pathlib import Path
from typing import Any

import pytest

import hansa
from hansa.core.errors import HansaError
from hansa.local.objectstore import RUNNER
from tests.cluster.cli import NAME, Typist, manifest
from tests.support import small
from tests.support.stored_adapters import put_adapter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_federation_is_read_and_pulled_by_its_name(
    typist: Typist,
    weed: Any,
    undisturbed: Path,
    fresh_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_adapter(weed, fresh_prefix, undisturbed / "adapter")
    place = {"bucket": weed.s3.bucket, "prefix": fresh_prefix}
    assert typist.apply(manifest(storage={"s3": place})).code == 0
    typist.finish()
    where = {"namespace": typist.cluster.namespace, "kubeconfig": typist.kubeconfig}
    federation = hansa.read_status(NAME, **where)
    assert (federation.metadata.name, federation.status.phase) == (NAME, "Succeeded")
    assert federation.status.adapter and federation.status.adapter.round == 2

    mine = weed.credentials[RUNNER]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", mine.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", mine.secret_key)
    folder = hansa.pull(NAME, typist.folder / "adapter", endpoint=weed.s3.endpoint, **where)
    for name in small.FILES:
        assert (folder / name).read_bytes() == (undisturbed / "adapter" / name).read_bytes()
    with pytest.raises(HansaError, match="no-such-federation"):
        hansa.read_status("no-such-federation", **where)
