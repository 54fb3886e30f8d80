"""An aggregator whose gate lets through what it did before; for bench/poisoned/run.py --before.

No bound on values, and any turn of the factors; run.py's specs leave norms and weights unbounded.
"""

import sys
from typing import Any

from hansa.runtime import program
from hansa.runtime.warm_parent import serve
from hansa.store.s3 import preload
from hansa_server import __main__ as server
from hansa_server import gate


def allow(*_: Any) -> None:
    """Refuse nothing."""


if __name__ == "__main__":
    vars(gate).update(check_bounded=allow, check_turned=allow)
    preload()
    serve(lambda: program.run_assignment(server.PROGRAM, server.work))
    sys.exit(0)
