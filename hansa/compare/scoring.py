"""Scoring adapters in all worlds, with the evaluate-only Job that ends every federation.

Each adapter gets a place of its own in the run's store, laid out like a federation whose only
environment has all worlds. The Job plays there exactly the tasks, with the same random
seeds, that the silos' own evaluations play.
"""

from collections.abc import Mapping
from typing import Any

from hansa.api import bucket_keys, job_names
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import StartAdapter, TaskTallies, sha256
from hansa.api.jobs import JobRequest
from hansa.api.spec import Environment
from hansa.api.status import RoundSettings
from hansa.compare import methods
from hansa.compare.comparison import Run
from hansa.core.errors import HansaError
from hansa.local.executor import TICK_SECONDS, LocalExecutor
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.local.rundir import RunDir
from hansa.runtime.capacity import measure
from hansa.store.base import put_once

BASE = "_base"
"""Owner of the untrained start; no silo can have this name."""
SHARED = "_shared"
"""Owner of an adapter that all silos share."""


def score(
    run: Run,
    folder: RunDir,
    store: LocalStore,
    adapters: Mapping[str, tuple[int, bytes]],
    parallel: int | None,
) -> dict[str, TaskTallies]:
    """How each silo's adapter, given as (round, bytes), does in all worlds but its own.

    A shared one is scored in the worlds that it has not seen. Without adapters the base is scored,
    in all of them.
    """
    assignments = {
        name: _assignment(run, store, name, round_, data)
        for name, (round_, data) in adapters.items()
        if _list_foreign_environments(run, name)
    }
    if not adapters:
        assignments = {BASE: _assignment(run, store, BASE, 0, b"")}
    _carry_out(run, folder, store, assignments, parallel)
    store.ensure()
    reader, tallies = store.store(), {}
    for name, one in assignments.items():
        place = (one.storage.prefix, one.environment, one.start.round)
        data = reader.get(bucket_keys.evaluation_tasks(*place))
        tallies[name] = TaskTallies.model_validate_json(data)
    return tallies


def _list_foreign_environments(run: Run, name: str) -> list[dict[str, Any]]:
    """Environments that an adapter of that name is foreign to."""
    if name == SHARED:
        return run.left_out
    environments: list[dict[str, Any]] = run.silos.spec.to_json()["environments"]
    return [e for e in environments if e["name"] != name]


def _assignment(run: Run, store: LocalStore, name: str, round_: int, data: bytes) -> Assignment:
    spec = run.silos.spec
    pool = methods.pool_environments({"environments": _list_foreign_environments(run, name)})
    centre = Environment.model_validate(pool["environments"][0])
    prefix = bucket_keys.scores_root(store.s3.prefix, name)
    start = StartAdapter()
    if round_:
        start = StartAdapter(round=round_, sha256=sha256(data))
        put_once(
            store.store(), bucket_keys.global_folder(prefix, round_) + bucket_keys.ADAPTER, data
        )
    return Assignment(
        role="evaluate",
        federation=run.federation.metadata.name,
        seed=spec.seed,
        model=spec.model,
        adapter=spec.adapter,
        round=round_,
        start=start,
        settings=RoundSettings.from_spec(spec),
        storage=store.s3.model_copy(update={"prefix": prefix}),
        environments=[centre.name],
        environment=centre.name,
        world=centre.world,
        options=centre.options,
    )


def _carry_out(
    run: Run,
    folder: RunDir,
    store: LocalStore,
    assignments: Mapping[str, Assignment],
    parallel: int | None,
) -> None:
    """Run the Jobs side by side; one that fails ends the scoring with its own sentence."""
    capacity = measure(threads=run.federation.spec.training.cpu_threads, asked=parallel)
    folder.jobs.mkdir(exist_ok=True)

    def environ(name: str) -> dict[str, str]:
        return store.environ(RUNNER)

    with LocalExecutor(folder.jobs, environ, capacity, own_credentials=False) as executor:
        for name, assignment in assignments.items():
            executor.create(
                JobRequest(
                    name=job_names.fit(f"{run.federation.metadata.name}-score-{name}"),
                    role="evaluate",
                    round=assignment.round,
                    environment=assignment.environment,
                    attempt=1,
                    assignment=assignment,
                )
            )
        jobs = executor.observe()
        while any(job.is_active for job in jobs):
            store.ensure()
            executor.wait(TICK_SECONDS)
            jobs = executor.observe()
    for job in jobs:
        if job.state == "failed":
            raise HansaError(f"{job.name}: {job.message or 'the scoring failed'}")
