"""The local run: observe, plan, apply, save, until the federation is done or needs a person."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hansa.api.courier_assignment import ENV_SIGNING_KEY
from hansa.api.jobs import Event, ObservedJob
from hansa.api.spec import S3, ExchangeStorage, FederationSpec, Storage
from hansa.api.status import Federation
from hansa.core.errors import InputError, StoreError, UnsealError
from hansa.core.exits import Exit
from hansa.crypto.sealing import ENV_SEALING_KEY
from hansa.local.credentials import (
    check_experience_key,
    drop_private,
    pick_reader,
    read_masking_keys,
    read_signer,
)
from hansa.local.executor import LocalExecutor, compute_wait_seconds, now
from hansa.local.objectstore import BUCKET, EmbeddedStore, LocalStore, place_private
from hansa.local.rundir import RunDir
from hansa.members.courier import load_key
from hansa.plan.federation import plan
from hansa.runtime.capacity import Capacity, measure
from hansa.runtime.stop_signals import raise_remembered_stop
from hansa.store import probe
from hansa.store.access_grants import AGGREGATOR
from hansa.store.base import ObjectStore
from hansa.store.experience import ENV_EXPERIENCE_KEY, ExperienceStore
from hansa.store.private import open_private
from hansa.store.s3 import S3Store
from hansa.store.sealed import read_opening_keys

if TYPE_CHECKING:
    from hansa.local.display import Display

ENDS = ("Succeeded", "Failed", "Suspended")
"""Phases in which only a person can change what happens next."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run, beside what the manifest says."""

    embedded: bool = False
    """Use the embedded store even if the manifest names another."""
    parallel: int | None = None
    """Jobs at a time; absent: by the machine."""
    credentials: dict[str, dict[str, str]] | None = None
    """AWS_* variables of each environment, of `aggregator` and of `default`, for an own store."""
    signing_key: Path | None = None
    """File of the coordinator's key, for silos that run elsewhere."""
    sealing_key: Path | None = None
    """File of the key that opens updates, where they are sealed."""
    masking_keys: Path | None = None
    """Folder with the file of each silo's masking key, where updates are masked."""


def run(
    wanted: Federation,
    folder: RunDir,
    options: RunOptions,
    display: "Display",
    at_end: Callable[[Federation, RunDir, ObjectStore], None],
) -> Federation:
    """Run a federation in its folder to its end, or to a failure that needs a person.

    `at_end` is called while the store still runs, to take results out of it.
    """
    folder.prepare()
    with folder.lock(), ExitStack() as stack:
        embedded = options.embedded or wanted.spec.storage is None
        spec = use_embedded(wanted) if embedded else wanted.spec
        federation = folder.adopt(wanted, wanted.model_copy(update={"spec": spec}), now())
        given = options.credentials or {}
        store = open_embedded(folder, spec) if embedded else None
        environ = store.environ if store else partial(choose_credentials, given)
        _check_silos_elsewhere(spec, options, embedded=embedded)
        _check_sealing_key(spec, options, embedded=embedded)
        of_silos = read_masking_keys(spec, options.masking_keys)
        if not embedded:
            check_own_store(spec, environ)
            _check_experience_keys(spec, environ)
        # Before the save: after a kill in between they are reported twice rather than never.
        _log_events(folder.changes(wanted), folder, display)
        folder.save(federation)
        capacity = _measure_capacity(spec, options.parallel)
        # Entered before the store: the warm processes import while it starts.
        executor = stack.enter_context(
            LocalExecutor(
                folder.jobs,
                environ,
                capacity,
                own_credentials=not embedded,
                of_courier=_key_variable(ENV_SIGNING_KEY, options.signing_key),
                of_aggregator=_key_variable(ENV_SEALING_KEY, options.sealing_key),
                of_silos=of_silos,
            )
        )
        if store:
            stack.enter_context(store)
            spec = spec.model_copy(update={"storage": ExchangeStorage(s3=store.s3)})
        ended = _loop(federation, spec, folder, executor, store, display)
        reached = store.store() if store else own_store(spec, pick_reader(given))
        # The cause of a failed run must not be hidden by a store that cannot be read.
        with suppress(StoreError) if ended.status.phase == "Failed" else nullcontext():
            if store:
                store.ensure()
            at_end(ended, folder, reached)
        return ended


def _check_silos_elsewhere(spec: FederationSpec, options: RunOptions, *, embedded: bool) -> None:
    """Refuse what no silo elsewhere could take part in, before anything is started."""
    index = next((i for i, each in enumerate(spec.environments) if each.member), None)
    if index is None:
        return
    if embedded:
        raise InputError(
            f"spec.environments[{index}].member: got a silo that runs elsewhere and cannot reach "
            "the embedded store, expected spec.storage and no --embedded-store"
        )
    if options.signing_key is None:
        raise InputError(
            "--signing-key: got none, expected the file of the key that signs orders, since "
            f"{spec.environments[index].name} runs elsewhere",
            hint="`hansa keys new FILE` makes one",
        )
    own, known = load_key(str(options.signing_key)).public, spec.exchange
    if known and own not in known.public_keys:
        raise InputError(
            f"--signing-key: got the key {own}, expected one of spec.exchange.publicKeys"
        )


def _key_variable(name: str, file: Path | None) -> dict[str, str]:
    """The variable that names a key's file, where there is one."""
    return {name: str(file.absolute())} if file else {}


def _check_sealing_key(spec: FederationSpec, options: RunOptions, *, embedded: bool) -> None:
    """Refuse sealed updates without the key that opens them, before anything is started."""
    wanted = spec.aggregation.seal_to
    if not wanted:
        return
    if embedded:
        raise InputError(
            "spec.aggregation.sealTo: got a key, and the embedded store holds every silo's "
            "experience as well, expected spec.storage and no --embedded-store"
        )
    if options.sealing_key is None:
        raise InputError(
            "--sealing-key: got none, expected the file of the key that opens what is sealed to "
            f"spec.aggregation.sealTo, {wanted}",
            hint="`hansa keys new FILE --sealing` makes one",
        )
    own = [key.public for key in read_opening_keys(options.sealing_key, "--sealing-key")]
    if wanted not in own:
        raise InputError(
            f"--sealing-key: got {' and '.join(own)}, expected that of spec.aggregation.sealTo, "
            f"{wanted}"
        )


def _check_experience_keys(spec: FederationSpec, environ: Callable[[str], dict[str, str]]) -> None:
    """Refuse keys that seal nothing or do not open what is there, before a round fails of it."""
    for index, each in enumerate(spec.environments):
        variables, sealed = environ(each.name), f"spec.environments[{index}].experienceKeySecret"
        if each.member:
            continue
        check_experience_key(variables, each.name, sealed if each.experience_key_secret else "")
        if variables.get(ENV_EXPERIENCE_KEY):
            own = open_experience(spec, each.name, own_store(spec, variables), variables)
            try:
                own.check()
            except UnsealError as error:
                raise InputError(f"--credentials: {each.name}: {error.message}") from None


def _loop(
    federation: Federation,
    spec: FederationSpec,
    folder: RunDir,
    executor: LocalExecutor,
    store: LocalStore | None,
    display: "Display",
) -> Federation:
    complaints: set[str] = set()
    while True:
        raise_remembered_stop()
        jobs = executor.observe()
        if store:
            _revive_store(store, jobs, complaints)
        # The spec with the address of the store, which the run's folder does not keep.
        next_ = plan(federation.model_copy(update={"spec": spec}), jobs, now())
        executor.apply(next_.delete, next_.create)
        if next_.status != federation.status:
            federation = federation.model_copy(update={"status": next_.status})
            folder.save(federation)
        # Events come after the status is on disk: what was published has happened.
        # The end of a failed run is said by the caller, with its cause: once is enough.
        _log_events(next_.events, folder, None if federation.status.phase == "Failed" else display)
        display.show(federation, jobs, executor)
        if federation.status.phase in ENDS:
            return federation
        executor.wait(compute_wait_seconds(next_.wake_at))


def _revive_store(store: LocalStore, jobs: list[ObservedJob], complaints: set[str]) -> None:
    """Restart a store that died, or that runs but did not answer a Job."""
    new = {job.name for job in jobs if job.exit_code == Exit.STORAGE_UNREACHABLE} - complaints
    complaints |= new
    if not store.ensure() and new:
        store.restart()


def _log_events(events: Sequence[Event], folder: RunDir, display: "Display | None") -> None:
    """Keep events in the run's log, and show them where there is a display."""
    folder.log_events(events, now())
    if display:
        for event in events:
            display.tell(event)


def use_embedded(federation: Federation) -> FederationSpec:
    """The spec with the embedded store's place in it; its address comes with its start.

    With privacy or masks each environment has a bucket of its own there, which no other may read.
    """
    spec, s3 = federation.spec, S3(bucket=BUCKET, prefix=federation.metadata.name)
    is_private = spec.privacy is not None or spec.aggregation.secure is not None
    environments = [
        e.model_copy(
            update={
                "experience_storage": Storage(s3=place_private(s3, e.name)) if is_private else None,
                "experience_key_secret": None,
            }
        )
        for e in spec.environments
    ]
    return spec.model_copy(update={"storage": ExchangeStorage(s3=s3), "environments": environments})


def open_embedded(folder: RunDir, spec: FederationSpec) -> LocalStore:
    """The embedded store of a run's folder."""
    names = [environment.name for environment in spec.environments]
    prefix = spec.storage.s3.prefix if spec.storage else ""
    private = any(environment.experience_storage for environment in spec.environments)
    return LocalStore(folder.store, names, prefix=prefix, private=private)


def own_store(spec: FederationSpec, variables: dict[str, str] | None = None) -> ObjectStore:
    """The user's own store, with these AWS_* variables or else those of the usual AWS chain."""
    return S3Store(spec.require_s3(), credentials=read_signer(variables or {}))


def open_experience(
    spec: FederationSpec,
    environment: str,
    exchange: ObjectStore,
    variables: dict[str, str] | None = None,
) -> ExperienceStore:
    """What has an environment's experience: its experienceStorage, by its own keys where it has
    some, or the exchange; opened where its own key is given."""
    environ = variables if variables is not None else os.environ
    own, place = spec.environment(environment).experience_storage, spec.private_storage(environment)
    store = exchange
    if own and isinstance(exchange, EmbeddedStore):
        store = exchange.open_private(environment)
    elif own:
        store = open_private(own.s3, environment, environ, read_signer(variables or {}))
    file = environ.get(ENV_EXPERIENCE_KEY)
    opening = read_opening_keys(Path(file), ENV_EXPERIENCE_KEY) if file else []
    return ExperienceStore(store, place.s3.prefix if place else "", environment, opening)


def check_own_store(spec: FederationSpec, environ: Callable[[str], dict[str, str]]) -> None:
    """Ask the user's own store, once, whether all identities of the run can use it."""
    writer = environ(AGGREGATOR)
    others = [environ(each.name) for each in spec.environments if each.member is None]
    # Each pair of keys once. Identities without keys use the AWS chain, like the writer above.
    known = {
        each: None for each in map(read_signer, others) if each and each != read_signer(writer)
    }
    probe.check_store(spec.require_s3(), read_signer(writer), list(known))


def _measure_capacity(spec: FederationSpec, asked: int | None) -> Capacity:
    model_bytes = 0
    if spec.model.source.startswith("path:"):
        files = Path(spec.model.source.removeprefix("path:")).glob("*.safetensors")
        model_bytes = sum(file.stat().st_size for file in files)
    return measure(threads=spec.training.cpu_threads, model_bytes=model_bytes, asked=asked)


def choose_credentials(given: dict[str, dict[str, str]], name: str) -> dict[str, str]:
    """An identity's own of those that the user gave, or the default; none: the usual AWS chain."""
    variables = given.get(name) or given.get("default") or {}
    return drop_private(variables) if name == AGGREGATOR else variables
