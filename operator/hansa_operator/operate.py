"""The operator's processes in one event loop: the Lease, the watches, the workers, the resync."""

import asyncio
import signal
import socket
import time
import traceback
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import kopf

from hansa.api import constants
from hansa.core import logs
from hansa.kubernetes.client import ApiError, Kube, connect
from hansa.version import __version__
from hansa_operator import handlers
from hansa_operator.children import Children
from hansa_operator.health import Health, serve
from hansa_operator.index import Index, Key
from hansa_operator.kinds import KINDS
from hansa_operator.lease import Lease
from hansa_operator.metrics import MetricsRecorder
from hansa_operator.publish import Publisher
from hansa_operator.reconcile import Reconciler
from hansa_operator.settings import Settings
from hansa_operator.workqueue import WorkQueue

LOST_LEASE = 1
WATCH_ENDED = 1
CRD_SECONDS = 5.0
"""How often a missing CustomResourceDefinition is looked for."""

log = logs.get("operator")


def operate(settings: Settings) -> int:
    """Run until a signal or the loss of the Lease; the exit code says which."""
    return asyncio.run(Operator(settings).run())


class Operator:
    """One replica."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self._kube = connect(pool_size=settings.workers + 1)
        self._index = Index()
        self._queue = WorkQueue()
        self._recorder = MetricsRecorder()
        self._health = Health()
        self._pool = ThreadPoolExecutor(settings.workers, thread_name_prefix="pass")
        self._afresh: set[Key] = set()
        children = Children(self._kube, self._index, settings)
        publisher = Publisher(self._kube, self._index, self._identity)
        self._reconciler = Reconciler(self._index, children, publisher, self._recorder, settings)
        self._lease = self._make_lease()
        self._stop = asyncio.Event()
        self._lost = False

    def _make_lease(self) -> Lease:
        settings = self._settings
        kube: Kube = connect(pool_size=1, timeout_seconds=settings.lease_seconds / 3)
        return Lease(
            kube=kube,
            namespace=settings.lease_namespace or self._kube.namespace,
            name=settings.lease_name,
            identity=self._identity,
            seconds=settings.lease_seconds,
        )

    async def run(self) -> int:
        """Wait for the Lease, act, and release the Lease at the end."""
        log.info("started", version=__version__, identity=self._identity)
        if self._settings.metrics_port:
            serve(self._settings.metrics_port, self._health, self._exposition)
        self._take_signals()
        beating = asyncio.create_task(self._beat())
        self._health.is_ready = True  # a standby replica is ready, too
        await self._hold_first()
        await self._wait_for_crd()
        if self._stop.is_set():
            await self._end([beating])
            return 0
        tasks = [beating, asyncio.create_task(self._hold())]
        tasks += [asyncio.create_task(self._resync())]
        tasks += [asyncio.create_task(self._work()) for _ in range(self._settings.workers)]
        watching = asyncio.create_task(self._watch())
        asked = asyncio.create_task(self._stop.wait())
        await asyncio.wait([watching, asked], return_when=asyncio.FIRST_COMPLETED)
        await self._end([*tasks, asked])
        log.info("stopped", lease="lost" if self._lost else "released")
        self._stop.set()
        try:
            await watching  # kopf takes its time; the next leader acts already
        except Exception as error:  # a CRD that was deleted, rights that were taken away
            log.error("watch-ended", message=f"{type(error).__name__}: {error}; starting anew")
            return WATCH_ENDED
        return LOST_LEASE if self._lost else 0

    async def _end(self, tasks: list["asyncio.Task[Any]"]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pool.shutdown(wait=True, cancel_futures=True)
        if not self._lost:
            with suppress(ApiError):
                self._lease.release()

    async def _watch(self) -> None:
        registry = kopf.get_default_registry()
        handlers.register(registry, self._index, self._queue)
        namespaces, ready = self._settings.namespaces, asyncio.Event()
        signals = asyncio.create_task(self._take_signals_back(ready))
        await kopf.operator(
            registry=registry,
            settings=handlers.make_settings(),
            identity=self._identity,  # type: ignore[arg-type]  # or it asks who the user is
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=self._stop,
            ready_flag=ready,
        )
        signals.cancel()

    def _take_signals(self) -> None:
        """Stop in our own order: the Lease is released first."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)

    async def _take_signals_back(self, ready: asyncio.Event) -> None:
        """kopf replaces the signal handlers when it starts."""
        await ready.wait()
        self._take_signals()

    async def _pause(self, seconds: float) -> None:
        """Wait, unless the operator is to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    # -- the Lease --------------------------------------------------------------------------------

    async def _hold_first(self) -> None:
        waits = False
        while not self._stop.is_set():
            if await self._try_hold():
                log.info("leading", identity=self._identity)
                return
            if not waits:
                log.info("standby", message="another replica holds the Lease")
                waits = True
            await self._pause(self._settings.lease_seconds / 5)

    async def _hold(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 5)
            held = await self._try_hold()
            if not held and not self._lease.is_held:
                log.error("lease-lost", message="another replica may act now; this one stops")
                self._lost = True
                self._stop.set()
                return

    async def _try_hold(self) -> bool:
        try:
            return await asyncio.to_thread(self._lease.try_hold)
        except ApiError as error:
            log.warning("lease", message=error.message)
            return False

    async def _wait_for_crd(self) -> None:
        """Before the first watch: kopf looks only once which resources there are."""
        logged = ""
        while not self._stop.is_set():
            missing = await asyncio.to_thread(self._find_missing_crds)
            if not missing:
                return
            if missing != logged:
                log.warning("no-crd", message=missing)
                logged = missing
            if not await self._try_hold() and not self._lease.is_held:
                await self._hold_first()
            await self._pause(min(CRD_SECONDS, self._settings.lease_seconds / 5))

    def _find_missing_crds(self) -> str:
        """Which CustomResourceDefinitions are missing, in a sentence; nothing: none."""
        path = f"/apis/{constants.API_VERSION}"
        try:
            served = {each["name"] for each in self._kube.get(path)["resources"]}
        except ApiError as error:
            return f"{path}: {error.message}"
        missing = " and no ".join(k.plural for k in KINDS.values() if k.plural not in served)
        return f"{path}: got no {missing}, expected what `hansa crd` prints" if missing else ""

    # -- passes -----------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._pass(key)
            finally:
                self._queue.done(key)
                self._health.note_pass()

    async def _pass(self, key: Key) -> None:
        if not self._lease.is_held:
            self._queue.add(key, 1.0)
            return
        afresh, began = key in self._afresh, time.monotonic()
        self._afresh.discard(key)
        where = {KINDS[key.kind].word: f"{key.namespace}/{key.name}"}
        try:
            seconds = await asyncio.get_running_loop().run_in_executor(
                self._pool, lambda: self._reconciler.reconcile(key, afresh=afresh)
            )
        except ApiError as error:
            if error.is_conflict:
                self._queue.add(key, handlers.COALESCE_SECONDS)
            elif not error.is_not_found or self._index.get(key).owner:
                pause = self._queue.failed(key)
                log.warning("pass", **where, message=error.message, again_in=pause)
            return
        except Exception as error:  # one object must not stop the others
            pause = self._queue.failed(key)
            trace = "".join(traceback.format_exception(error))
            log.error("fault", **where, again_in=pause, traceback=trace)
            return
        self._queue.succeeded(key)
        if self._index.get(key).owner:
            self._recorder.record_pass(*key, time.monotonic() - began)
        if seconds is not None:
            self._queue.add(key, seconds)

    async def _resync(self) -> None:
        """Look at every object now and then, with its Jobs and Pods read from the API."""
        every = self._settings.resync_seconds
        self._health.expect_passes(float("inf"), self._queue.overdue_seconds)
        while True:
            await asyncio.sleep(every)
            keys = self._index.list_owners()
            within = 2 * every + 60.0 if keys else float("inf")
            self._health.expect_passes(within, self._queue.overdue_seconds)
            for number, key in enumerate(keys):
                self._afresh.add(key)
                self._queue.add(key, number * every / (2 * len(keys)))

    async def _beat(self) -> None:
        while True:
            self._health.beat()
            await asyncio.sleep(1)

    def _exposition(self) -> bytes:
        for key in self._index.list_owners():
            self._recorder.waiting(*key, self._queue.depth(key))
        return self._recorder.exposition()
