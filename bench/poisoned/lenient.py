"""An aggregator whose gate lets through what it did before; for bench/poisoned/run.py --before.

No bound on values, any turn of the factors, any weight that a member claims.
"""

import math
import sys
from typing import Any

from hansa.processes.warm import serve
from hansa.store.s3 import preload
from hansa_server import __main__ as server
from hansa_server import gate, stream


def allow(*_: Any) -> None:
    """Refuse nothing."""


if __name__ == "__main__":
    vars(gate).update(check_bounded=allow, check_turned=allow)
    vars(stream)["MOST_WEIGHT"] = math.inf
    preload()
    serve(server.run)
    sys.exit(0)
