"""Fixtures that several tests share: one real S3 server for all, and a proxy that fails."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from hansa.api.spec import S3
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.store.s3 import Retry, S3Store
from tests.support import small
from tests.support.faults import FaultyProxy

ENVIRONMENTS = ("maze", "maze2", "wordle")
PREFIX = "fed"

LONGEST_FIRST = (
    "tests/docs/test_readme.py",
    "tests/crash/test_moments.py",
    "tests/local/test_compare.py",
    "tests/local/test_run.py",
    "tests/local/test_guard.py",
    "tests/docs/test_contributing.py",
    "tests/docs/test_members.py",
    "tests/docs/test_compare.py",
    "tests/docs/test_report_browser.py",
    "tests/local/test_run_faults.py",
    "tests/local/test_strange_world.py",
    "tests/crash/test_random_kills.py",
    "tests/crash/test_aggregator.py",
    "tests/crash/test_alone.py",
    "tests/crash/test_twin.py",
    "tests/local/test_plugin.py",
    "tests/local/test_own_world.py",
    "tests/local/test_many.py",
    "tests/local/test_personal.py",
    "tests/local/test_own_store.py",
    "tests/local/test_agentgym_run.py",
    "tests/local/test_strategies.py",
    "tests/local/test_own_model.py",
)
"""Files that start whole runs, longest first; begun last, one would keep the other worker idle."""

RUNS = tuple(f"tests/{name}/" for name in ("crash", "docs", "local"))
"""Folders whose tests start programs: all of them are slow, marked or not."""

_numbers = itertools.count()

# Two files are tested at a time on two cores: threads of torch would only wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("hansa", deadline=None)  # how fast a machine is proves nothing
settings.load_profile("hansa")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; `--dist loadfile` gives files to workers in this order."""
    for item in items:
        if item.nodeid.startswith(RUNS):
            item.add_marker("slow")
    order = {Path(__file__).parents[1] / file: n for n, file in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


@pytest.fixture(scope="session", autouse=True)
def no_credentials_of_this_machine() -> Iterator[None]:
    """Tests see no AWS settings of whoever runs them."""
    patch = pytest.MonkeyPatch()
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        patch.delenv(name)
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    patch.setenv("AWS_CONFIG_FILE", os.devnull)
    patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def signals_are_heard() -> None:
    """Background jobs ignore interrupts, nohup's hang-ups, and so would all they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def bytecode_is_kept() -> Iterator[None]:
    """Programs that tests start compile torch once, even where that is switched off."""
    patch = pytest.MonkeyPatch()
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        patch.delenv("PYTHONDONTWRITEBYTECODE")
        patch.setenv("PYTHONPYCACHEPREFIX", str(Path(__file__).parents[1] / ".cache/pycache"))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """A running store with identities for ENVIRONMENTS and the aggregator below PREFIX."""
    folder = tmp_path_factory.mktemp("weed")
    with LocalStore(folder, ENVIRONMENTS, prefix=PREFIX) as store:
        yield store


@pytest.fixture
def fresh_prefix() -> str:
    """A prefix that no other test writes below; only the runner's identity may use it."""
    return f"test-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(scope="session")
def store(weed: LocalStore) -> Iterator[S3Store]:
    """The bucket as the runner sees it."""
    made = weed.store()
    yield made
    made.close()


@pytest.fixture
def proxy(weed: LocalStore) -> Iterator[FaultyProxy]:
    """A proxy in front of the store, healthy until told otherwise."""
    with FaultyProxy(weed.s3.endpoint or "") as running:
        yield running


@pytest.fixture
def through(weed: LocalStore, proxy: FaultyProxy) -> Iterator[Callable[..., S3Store]]:
    """Makes stores that go through the proxy: through(identity, patience_seconds)."""
    made: list[S3Store] = []

    def make(name: str = RUNNER, patience_seconds: float = 1.0, **retry: float) -> S3Store:
        s3 = S3(endpoint=proxy.endpoint, bucket=weed.s3.bucket, prefix=weed.s3.prefix)
        rules = Retry(patience_seconds=patience_seconds, **{"first_pause_seconds": 0.02, **retry})
        made.append(S3Store(s3, credentials=weed.credentials[name], retry=rules))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small run that nothing disturbed: what every disturbed one must equal."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with small.Run(small.write_manifest(folder), folder / "run") as run:
        run.finish()
    return folder / "run"
