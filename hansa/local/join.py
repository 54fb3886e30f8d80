"""`hansa join`: a silo without Kubernetes: observe, follow, apply, save, until it has left.

The private store is the owner's own, or one in the silo's folder that only this machine reaches.
It may be killed at any moment and run again: orders and answers are in the bucket, each once.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hansa.api.courier_assignment import ENV_SIGNING_KEY
from hansa.api.jobs import Event, ObservedJob
from hansa.api.letters import ORDERS
from hansa.api.member_spec import MemberObject, MemberSpec
from hansa.api.member_status import FederationMember
from hansa.api.spec import Storage
from hansa.core.errors import HansaError, InputError, PermanentError, Untrusted
from hansa.core.exits import Exit
from hansa.core.files import replace_file
from hansa.core.text import count
from hansa.local.credentials import (
    check_experience_key,
    drop_private,
    is_known,
    read_masking_key,
    read_signer,
)
from hansa.local.executor import LocalExecutor, compute_wait_seconds, now
from hansa.local.objectstore import LocalStore
from hansa.local.rundir import RunDir
from hansa.members.courier import load_key
from hansa.members.order import open_log
from hansa.plan.member_plan import follow
from hansa.runtime.capacity import measure
from hansa.runtime.stop_signals import raise_remembered_stop
from hansa.store.access_grants import AGGREGATOR
from hansa.store.private import KEY, SECRET
from hansa.store.s3 import Retry, S3Store
from hansa.validation.messages import describe_first_misfit

OBJECT = "member.json"


@dataclass(frozen=True, kw_only=True)
class Joining:
    """How a silo takes part, beside what its manifest says."""

    key: Path
    """File with its private key."""
    credentials: Mapping[str, str]
    """AWS_* variables of the exchange, and HANSA_EXPERIENCE_AWS_* of its private store."""
    once: bool = False
    """End once the newest order is answered, or when there is none."""
    stay: bool = False
    """Wait for orders also when the federation has finished."""
    parallel: int | None = None
    """Jobs at a time; absent: by the machine."""
    masking_key: Path | None = None
    """File with its masking key, where updates are masked."""


Tell = Callable[[str], None]


def join(wanted: MemberObject, folder: RunDir, joining: Joining, tell: Tell) -> FederationMember:
    """Take part until the federation has finished or the silo has left, or with `once` until there
    is nothing to do."""
    public = load_key(str(joining.key)).public
    if public not in wanted.spec.public_keys:
        raise InputError(f"--key: got the key {public}, expected one of spec.publicKeys")
    masks = _read_masking_key(wanted.spec, joining)
    name, sealed = wanted.spec.federation.environment, wanted.spec.experience_key_secret
    field = "spec.experienceKeySecret" if sealed else ""
    check_experience_key(joining.credentials, name, field)
    folder.prepare()
    with folder.lock("hansa join"), ExitStack() as stack:
        silo = _adopt(wanted, folder)
        _save(silo, folder)
        spec = silo.spec
        variables = dict(joining.credentials)
        threads = spec.agreed.settings.training.cpu_threads
        capacity = measure(threads=threads, asked=joining.parallel)
        executor = stack.enter_context(
            LocalExecutor(
                folder.jobs,
                # No courier sees what opens the private store: only the client needs it.
                lambda name: drop_private(variables) if name == AGGREGATOR else variables,
                capacity,
                own_credentials=True,
                of_courier={ENV_SIGNING_KEY: str(joining.key.absolute())},
                of_silos={spec.federation.environment: masks},
                warmed=("hansa.members", "hansa_client"),
            )
        )
        store = None
        if spec.experience_storage is None and not sealed:
            store = stack.enter_context(LocalStore(folder.store, [name]))
            own = store.credentials[name]  # opens the silo's own store, and no other
            variables |= {KEY: own.access_key, SECRET: own.secret_key}
            spec = spec.model_copy(update={"experience_storage": Storage(s3=store.s3)})
        return _loop(silo, spec, folder, executor, store, joining, tell)


def _read_masking_key(spec: MemberSpec, joining: Joining) -> dict[str, str]:
    """The variable with the masking key; an error where masks are agreed and no key is given."""
    if joining.masking_key:
        return read_masking_key(joining.masking_key, None, "--masking-key")
    if spec.agreed.settings.aggregation.secure:
        raise InputError(
            "--masking-key: got none, expected the file of the silo's masking key, since "
            "spec.agreed.settings.aggregation.secure masks its updates",
            hint="`hansa keys new FILE --masking` makes one",
        )
    return {}


def _loop(
    silo: FederationMember,
    spec: MemberSpec,
    folder: RunDir,
    executor: LocalExecutor,
    store: LocalStore | None,
    joining: Joining,
    tell: Tell,
) -> FederationMember:
    say, shown, troubles = CountedLines(tell), "", dict[str, str]()
    s3 = spec.storage.s3
    say(f"{_name(silo)}: asks {s3.endpoint or 'Amazon S3'}, bucket {s3.bucket}, for orders")
    # Of a log that was read before, only the courier notices that it is another one now.
    has_listened = not silo.status.received.serial and _has_no_order(silo, joining.credentials)
    while True:
        raise_remembered_stop()
        jobs = executor.observe()
        if store:
            store.ensure()
        made = follow(silo.model_copy(update={"spec": spec}), jobs, now())
        executor.apply(made.delete, made.create)
        if made.status != silo.status:
            silo = silo.model_copy(update={"status": made.status})
            _save(silo, folder)
        folder.log_events(made.events, now())
        has_listened |= any(job.role == "courier" and job.state == "succeeded" for job in jobs)
        for line in list_troubles(made.events, silo, troubles):
            say(line)
        is_known = silo.status.phase != "Idle" or (has_listened and not silo.status.trouble)
        if is_known and (line := summarize_silo(silo)) != shown:
            say(shown := line)
        if silo.status.phase == "Failed":
            raise _make_failure(silo.status.message, jobs)
        why = silo.status.current.why if silo.status.current else ""
        is_over = why in ("finished", "removed") and not joining.stay
        is_done = has_listened and _is_idle(silo) and (joining.once or is_over)
        if silo.status.phase == "Left" or is_done:
            return silo
        executor.wait(compute_wait_seconds(made.wake_at))


def _make_failure(message: str, jobs: list[ObservedJob]) -> HansaError:
    """An error that no retry can fix ends the command."""
    last = max((j for j in jobs if j.role == "courier"), key=lambda j: j.attempt, default=None)
    is_untrusted = last is not None and last.exit_code == Exit.UNTRUSTED
    return (Untrusted if is_untrusted else PermanentError)(message)


def _has_no_order(silo: FederationMember, variables: Mapping[str, str]) -> bool:
    """Whether the exchange says so; where it does not answer, the courier says what is wrong."""
    store = S3Store(
        silo.spec.storage.s3, credentials=read_signer(variables), retry=Retry(patience_seconds=5)
    )
    with suppress(HansaError):
        return open_log(silo.spec, ORDERS, store).look(1) is None
    return False


def _is_idle(silo: FederationMember) -> bool:
    current = silo.status.current
    at_work = current is not None and current.state in ("New", "Waiting", "Working")
    return not at_work and not silo.status.owed


def summarize_silo(silo: FederationMember) -> str:
    """What the silo does, for people."""
    status, current = silo.status, silo.status.current
    name = _name(silo)
    if status.message:
        return f"{name}: {status.phase}: {status.message}"
    if status.left:
        return f"{name}: {status.phase}: takes no further part"
    if current is None or current.kind == "rest":
        return f"{name}: {status.phase}: {_REST[current.why if current else '']}"
    what = f"order {current.order.serial}, round {current.round}"
    why = f": {current.message}" if current.message else ""
    return f"{name}: {status.phase}: {what}: {current.state}{why}"


def _name(silo: FederationMember) -> str:
    return f"{silo.spec.federation.name}/{silo.spec.federation.environment}"


_REST = {
    **dict.fromkeys(("", "missed"), "waits for an order"),
    "suspended": "the federation is suspended",
    "finished": "the federation is over",
    "removed": "the federation continues without this silo",
}
"""What a silo without work waits for, by the coordinator's reason."""


class CountedLines:
    """Says a line once; how often it came again is said before the next one."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._last = ""
        self._more = 0

    def __call__(self, line: str) -> None:
        """Say the line, or count it."""
        if line == self._last:
            self._more += 1
            return
        if self._more:
            self._tell(f"{self._last} ({count(self._more, 'more time')})")
        self._last, self._more = line, 0
        self._tell(line)


def list_troubles(
    events: Sequence[Event], silo: FederationMember, troubles: dict[str, str]
) -> list[str]:
    """Events as lines, and conditions that have changed; a courier that failed is a condition's."""
    couriers = [e for e in events if e.reason == "JobRetried" and e.message.startswith("courier: ")]
    lines = [
        f"{'warning ' if event.warning else ''}{event.reason}: {event.message}"
        for event in events
        if event not in couriers
    ]
    changed = _list_changed_conditions(silo, troubles)
    if couriers and not changed:
        changed = _list_changed_conditions(silo, {**troubles, "Connected": ""})
    return [*lines, *changed]


def _list_changed_conditions(silo: FederationMember, troubles: dict[str, str]) -> list[str]:
    """Conditions that became false or true again: each change is printed once."""
    lines = []
    for each in silo.status.conditions:
        trouble = each.reason if each.status == "False" else ""
        if each.type in ("Connected", "Allowed") and trouble != troubles.get(each.type, ""):
            lines.append(f"{each.type} {each.status}: {each.reason}: {each.message}")
            troubles[each.type] = trouble
    return lines


def is_silo(folder: RunDir) -> bool:
    """Whether a folder is that of a silo, and not of a run."""
    return (folder.path / OBJECT).exists() and not folder.object.exists()


def load(folder: RunDir) -> FederationMember:
    """The silo as last saved."""
    path = folder.path / OBJECT
    try:
        return FederationMember.model_validate_json(path.read_bytes())
    except (OSError, ValidationError, UnicodeDecodeError) as error:
        why = describe_first_misfit(error) if isinstance(error, ValidationError) else str(error)
        raise InputError(f"{path}: cannot be read ({why})") from None


def _adopt(wanted: MemberObject, folder: RunDir) -> FederationMember:
    """The new spec over the old status; another run or another name is another folder."""
    if not (folder.path / OBJECT).exists():
        return FederationMember(metadata=wanted.metadata, spec=wanted.spec)
    old = load(folder)
    for field in ("run", "environment"):
        before, after = (getattr(each.spec.federation, field) for each in (old, wanted))
        if before != after:
            raise InputError(
                f"spec.federation.{field}: got {after}, expected {before} "
                f"({folder.path} holds that silo)",
                hint="choose another --out",
            )
    if old.spec.world != wanted.spec.world:
        raise InputError(
            f"spec.world: got {wanted.spec.world}, expected {old.spec.world} "
            "(it cannot change after the first order)"
        )
    # Running it again clears the failure: if it was not fixed, it is reported again.
    # A pause is dropped too: it may have been computed by a wrong clock.
    courier = old.status.courier and old.status.courier.model_copy(update={"not_before": None})
    status = old.status.model_copy(update={"message": "", "courier": courier})
    return FederationMember(metadata=wanted.metadata, spec=wanted.spec, status=status)


def _save(silo: FederationMember, folder: RunDir) -> None:
    data = silo.model_dump_json(by_alias=True, exclude_none=True, indent=1)
    replace_file(folder.path / OBJECT, f"{data}\n".encode())


def choose_variables(given: dict[str, dict[str, str]], name: str) -> dict[str, str]:
    """Variables of the silo in a credentials file: its own, or the default's."""
    return given.get(name) or given.get("default") or {}


def read_own_variables() -> dict[str, str]:
    """Where no file is given: what this process has."""
    return {name: value for name, value in os.environ.items() if is_known(name)}
