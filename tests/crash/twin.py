"""A client that trains to other bytes when told so: the slow twin of a Job, as a warm program."""

import dataclasses
import os
import sys
from typing import Any

from hansa.runtime.warm_parent import serve
from hansa_client import __main__ as client
from hansa_client import learners

_real = learners.get


def _get(*which: Any) -> Any:
    learn = _real(*which)

    def other(*args: Any) -> Any:
        trained = learn(*args)
        if os.environ.get("HANSA_TEST_TWIN") != "1":
            return trained
        tensors = {key: value + 1e-3 for key, value in trained.tensors.items()}
        return dataclasses.replace(trained, tensors=tensors)

    return other


if __name__ == "__main__":
    learners.get = _get
    client.import_slow_modules()
    serve(client.run)
    sys.exit(0)
