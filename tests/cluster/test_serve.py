"""`hansa serve NAME`: a federation's adapters by name, with the caller's own credentials."""

import os
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

from hansa.local.objectstore import RUNNER
from tests.cluster.cli import NAME, Typist, manifest
from tests.support.served import served
from tests.support.stored_adapters import put_adapter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_federation_is_served_by_its_name_with_the_callers_credentials(
    typist: Typist, weed: Any, undisturbed: Path, fresh_prefix: str
) -> None:
    put_adapter(weed, fresh_prefix, undisturbed / "adapter")
    place = {"endpoint": "http://minio.storage.invalid:9000", "bucket": weed.s3.bucket}
    typist.apply(manifest(storage={"s3": {**place, "prefix": fresh_prefix}}))
    typist.finish()

    lost = typist.hansa("serve", NAME, "--port", "0")
    assert lost.code == 2
    assert "kubectl port-forward -n storage service/minio 9000:9000" in lost.err
    unknown = typist.hansa("serve", "no-such-federation", "--port", "0")
    assert unknown.code != 0 and "no-such-federation" in unknown.err

    mine = weed.credentials[RUNNER]
    environ = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": mine.access_key,
        "AWS_SECRET_ACCESS_KEY": mine.secret_key,
        "KUBECONFIG": typist.kubeconfig,
    }
    words = f"{sys.executable} -m hansa.cli.main serve {NAME} -n {typist.cluster.namespace}"
    with served(f"{words} --endpoint {weed.s3.endpoint}", typist.folder, environ) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
        names = {model.id for model in client.models.list()}
        assert {"base", "round-2"} <= names
        turn = {"role": "user", "content": "Reach the goal."}
        asked: dict[str, Any] = {"messages": [turn], "temperature": 0, "max_tokens": 8}
        answer = client.chat.completions.create(model="round-2", **asked)
        assert answer.choices[0].message.content is not None
    wrong = {**environ, "AWS_SECRET_ACCESS_KEY": "not-the-key-of-anybody"}
    refused = typist.hansa(
        "serve",
        NAME,
        "--port",
        "0",
        "--endpoint",
        weed.s3.endpoint,
        **{name: wrong[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")},
    )
    assert refused.code not in (0, 1)
