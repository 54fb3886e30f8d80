"""The program: it can be warmed and forked, and has one way in."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from hansa.api.assignment import Assignment
from hansa.core.errors import PermanentError
from hansa_client import __main__ as program

POOLED = {
    "model": {"source": "builtin:tiny"},
    "world": "mixed",
    "options": {"worlds": [{"name": "one", "world": "maze"}, {"name": "two", "world": "babyai"}]},
}
"""A Job's assignment, as far as it is warmed for: a silo of two worlds."""


@pytest.mark.slow
def test_a_warm_process_has_no_thread_and_a_fork_of_it_can_train() -> None:
    code = (
        "import os, sys\n"
        "from hansa_client.__main__ import import_for_job, import_slow_modules\n"
        "import_slow_modules()\n"
        "import torch\n"
        'import_for_job({\'HANSA_ASSIGNMENT\': \'{"model": {"source": "builtin:tiny"}}\'})\n'
        "assert 'transformers' not in sys.modules\n"
        'import_for_job({\'HANSA_ASSIGNMENT\': \'{"model": {"source": "path:/some"}}\'})\n'
        "assert {'transformers', 'peft'} <= sys.modules.keys()\n"
        "import_for_job({'HANSA_ASSIGNMENT': 'garbled'})\n"
        "assert 'minigrid' not in sys.modules\n"
        f"import_for_job({{'HANSA_ASSIGNMENT': {json.dumps(POOLED)!r}}})\n"
        "assert 'minigrid.envs.babyai' in sys.modules\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
        "assert not torch.cuda.is_initialized()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    torch.set_num_threads(2)\n"
        "    x = torch.randn(300, 300, requires_grad=True)\n"
        "    (x @ x).sum().backward()\n"
        "    os._exit(7)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 7, ended.stderr


def test_an_aggregators_assignment_is_refused(assign: Callable[..., Assignment]) -> None:
    with pytest.raises(PermanentError, match="role: got aggregator"):
        program.work(assign(role="aggregator"))
