"""What `helm test` runs: the operator is ready, and the cluster knows what a federation is.

Only the standard library, since it runs in the operator's image without installing anything.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PATIENCE_SECONDS = 60.0


def main() -> int:
    """Run all checks; the first that fails says what is wrong."""
    until_ready(os.environ["READY_URL"])
    spec = {"rounds": 1, "environments": [{"name": "maze", "world": "maze"}], **STORAGE}
    code, said = submit(spec)
    if code != 201:
        return fail(f"a tiny federation: got {code} ({said}), expected it to be taken")
    print("ok: a tiny federation would be taken (dry run)")
    code, said = submit({**spec, "rounds": 0})
    if code != 422:
        return fail(f"a federation without rounds: got {code} ({said}), expected a refusal")
    print("ok: one without rounds is refused")
    return 0


STORAGE = {"storage": {"s3": {"bucket": "hansa", "prefix": "helm-test"}}}


def until_ready(url: str) -> None:
    """Wait until the Service leads to an operator that is ready."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (said := ask(urllib.request.Request(url))[1]) is not None:  # noqa: S310
        if time.monotonic() > deadline:
            sys.exit(fail(f"{url}: got {said}, expected an operator that is ready"))
        time.sleep(1)
    print(f"ok: {url} answers")


def submit(spec: dict[str, Any]) -> tuple[int, str | None]:
    """What the apiserver says to a federation that it shall not keep."""
    namespace = os.environ["FEDERATION_NAMESPACE"]
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    path = f"/apis/hansa.dev/v1alpha1/namespaces/{namespace}/federations"
    body = {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": "helm-test"},
        "spec": spec,
    }
    request = urllib.request.Request(
        f"https://{host}:{port}{path}?dryRun=All&fieldValidation=Strict",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",
            "Content-Type": "application/json",
        },
    )
    return ask(request, ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")))


def ask(
    request: urllib.request.Request, tls: ssl.SSLContext | None = None
) -> tuple[int, str | None]:
    """The status of an answer, and its words where it is no success."""
    try:
        with urllib.request.urlopen(request, timeout=10, context=tls) as answer:  # noqa: S310
            return answer.status, None
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")[:500]
    except OSError as error:
        return 0, str(error)


def fail(sentence: str) -> int:
    """Say it where `helm test` shows it."""
    print(f"error: {sentence}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
