"""A coordinator and its silos over one bucket, where every pass and courier may be lost."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import sha256
from hansa.api.constants import ANNOTATION_RETRY
from hansa.api.courier_assignment import CourierAssignment
from hansa.api.exchange import Cursor
from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.letters import ANSWERS, ORDERS, compute_run_id
from hansa.api.member_spec import MemberSpec
from hansa.api.member_status import FederationMember
from hansa.api.silo_assignment import SiloClientAssignment, SiloCourierAssignment
from hansa.api.spec import S3, FederationSpec, Metadata
from hansa.api.status import Federation, RoundSettings
from hansa.core.errors import HansaError
from hansa.crypto.dsse import generate_signing_key
from hansa.members import courier as coordinators_courier
from hansa.members import silo_courier as silos_courier
from hansa.members.mailbox import Mailbox
from hansa.members.order import build_assignment
from hansa.plan.federation import plan
from hansa.plan.member_plan import follow
from tests.support.builders import make_report
from tests.support.memory_store import MemoryStore

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
STORAGE = {"s3": {"bucket": "bucket", "prefix": "run"}}
MODEL = {"source": "builtin:tiny", "sha256": "b" * 64}
ADAPTER = {"shapes": "d" * 64}
ROUNDS = 2
SILOS = ("bank", "clinic")
LATER = "lab"
"""A silo that is only in the spec once somebody adds it."""
KEYS = {name: generate_signing_key() for name in ("coordinator", *SILOS, LATER)}
NEW_KEYS = {name: generate_signing_key() for name in KEYS}


class NotYet(Exception):
    """A courier that listens has heard nothing."""


class Party:
    """Jobs of one cluster; a pass may be lost after its Jobs were made, as by a kill."""

    def __init__(self, world: "World", key: str) -> None:
        self.world = world
        self.key = KEYS[key]
        self.jobs: dict[str, ObservedJob] = {}
        self.requests: dict[str, JobRequest] = {}
        self.made: list[str] = []
        self.wake_at: datetime | None = BEGIN

    def act(self, made, *, lost: bool) -> None:
        for name in made.delete:
            self.jobs.pop(name, None)
        for request in made.create:
            if request.name not in self.jobs:
                self.requests[request.name] = request
                self.made.append(request.name)
                self.show(request, "starting")
        if not lost:
            self.wake_at = made.wake_at

    def show(self, request: JobRequest, state: str, **fields) -> None:
        now = self.world.now
        if state != "starting":
            fields.setdefault("started_at", now)
        known = self.jobs.get(request.name)
        self.jobs[request.name] = ObservedJob(
            name=request.name,
            role=request.role,
            round=request.round,
            environment=request.environment,
            attempt=request.attempt,
            state=state,  # type: ignore[arg-type]
            created_at=known.created_at if known else now,
            **fields,
        )

    def active(self) -> list[str]:
        return sorted(name for name, job in self.jobs.items() if job.is_active)

    def run(self, name: str, *, fault: str) -> None:
        """One Job to its end; `fault`: it dies before it does anything, or its report is lost."""
        request = self.requests[name]
        if fault == "dies":
            self.show(request, "failed", reason="Disrupted")
            return
        try:
            report = self.world.report(self, request)
        except NotYet:
            self.show(request, "running")
            return
        except HansaError as error:
            said = getattr(error, "report", None)
            self.show(request, "failed", exit_code=error.exit, message=error.message, report=said)
            return
        self.show(request, "succeeded", report=None if fault == "loses" else report)


def environment(name: str, *keys: str) -> dict[str, object]:
    """A silo elsewhere as a spec names it."""
    return {"name": name, "member": {"publicKeys": [*keys, KEYS[name].public]}}


class World:
    """One coordinator with a silo of its own, two silos elsewhere, and the bucket between them."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.now = BEGIN
        environments = [{"name": "maze", "world": "maze"}, *map(environment, SILOS)]
        spec = FederationSpec.model_validate(
            {
                "rounds": ROUNDS,
                "model": MODEL,
                "adapter": ADAPTER,
                "storage": STORAGE,
                "exchange": {"publicKeys": [KEYS["coordinator"].public]},
                "environments": environments,
            }
        )
        self.federation = Federation(metadata=Metadata(name="five"), spec=spec)
        self.coordinator = Party(self, "coordinator")
        run = compute_run_id(S3.model_validate(STORAGE["s3"]), spec.identity())
        self.run = run
        names = (*SILOS, LATER)
        self.silos = {name: self._silo(name, run, spec) for name in names}
        self.parties = {name: Party(self, name) for name in names}
        self.trusted = {name: [key.public] for name, key in KEYS.items()}

    def _silo(self, name: str, run: str, spec: FederationSpec) -> FederationMember:
        given = {
            "federation": {
                "name": "five",
                "run": run,
                "environment": name,
                "publicKeys": [KEYS["coordinator"].public],
            },
            "storage": STORAGE,
            "publicKeys": [KEYS[name].public],
            "world": "maze",
            "limits": {"most": {"rounds": 50}},  # those that fail count, too
            "agreed": {
                "seed": spec.seed,
                "rounds": ROUNDS,
                "model": MODEL,
                "adapter": ADAPTER,
                "settings": RoundSettings.from_spec(spec).to_json(),
            },
        }
        return FederationMember(
            metadata=Metadata(name="five"), spec=MemberSpec.model_validate(given)
        )

    # -- what programs do ---------------------------------------------------------------------

    def report(self, party: Party, request: JobRequest):
        def sleep(seconds: float) -> None:
            if seconds > coordinators_courier.SETTLE_SECONDS:
                raise NotYet

        assignment = request.assignment
        if isinstance(assignment, CourierAssignment):
            return coordinators_courier.carry(assignment, self.store, party.key, sleep=sleep)
        if isinstance(assignment, SiloCourierAssignment):
            return silos_courier.carry(assignment, self.store, party.key, sleep=sleep)
        if isinstance(assignment, SiloClientAssignment):
            assignment = build_assignment(assignment, self.store)
        return self.play(assignment, request)

    def play(self, assignment: Assignment, request: JobRequest):
        """A client or aggregator, which writes each object once."""
        whole = JobRequest(
            name=request.name,
            role=request.role,
            round=assignment.round,
            environment=assignment.environment,
            attempt=1,
            assignment=assignment,
        )
        report = make_report(whole)
        if assignment.role == "aggregator":
            return report
        if assignment.role == "client":
            folder = bucket_keys.update_folder("run", assignment.environment, assignment.round)
            manifest = (
                f"{assignment.environment} {assignment.round} {assignment.start.sha256}".encode()
            )
            self.once(f"{folder}{bucket_keys.MANIFEST}", manifest)
            report = report.model_copy(update={"manifest": sha256(manifest)})
        if report.evaluation:
            key = bucket_keys.evaluation("run", assignment.environment, assignment.start.round)
            self.once(key, f"{assignment.environment} {assignment.start.round}".encode())
        return report

    def once(self, key: str, data: bytes) -> None:
        assert self.store.objects.setdefault(key, data) == data, f"{key} has other bytes now"

    # -- what parties do ----------------------------------------------------------------------

    def plan(self, *, lost: bool = False) -> None:
        made = plan(self.federation, list(self.coordinator.jobs.values()), self.now)
        self.coordinator.act(made, lost=lost)
        if not lost:
            self.federation = self.federation.model_copy(update={"status": made.status})

    def follow(self, name: str, *, lost: bool = False) -> None:
        silo, party = self.silos[name], self.parties[name]
        made = follow(silo, list(party.jobs.values()), self.now)
        party.act(made, lost=lost)
        if not lost:
            self.silos[name] = silo.model_copy(update={"status": made.status})

    @property
    def all(self) -> list[Party]:
        return [self.coordinator, *self.parties.values()]

    def calm(self) -> None:
        """Everybody works without a fault, until nothing is left to do."""
        if self.federation.spec.suspend:
            self.edit(suspend=False)
        for turn in range(2000):
            if self.federation.status.failed:
                self.retry(turn)
            self.plan()
            for name in self.silos:
                self.follow(name)
            for party in self.all:
                for name in party.active():
                    party.run(name, fault="")
            self.now += timedelta(seconds=5)
            if self.is_over():
                return
        raise AssertionError(f"it never ends: {self.federation.status.conditions}")

    def retry(self, turn: int) -> None:
        """What a person does after a round that somebody did not take part in in time."""
        annotations = {ANNOTATION_RETRY: str(turn)}
        metadata = self.federation.metadata.model_copy(update={"annotations": annotations})
        self.federation = self.federation.model_copy(update={"metadata": metadata})

    def is_over(self) -> bool:
        orders = [silo.status.current for silo in self.silos.values()]
        is_done = self.federation.status.phase == "Succeeded"
        return is_done and all(order is None or order.state == "Resting" for order in orders)

    # -- what people do -----------------------------------------------------------------------

    def edit(self, **changes: object) -> None:
        """Somebody applies another spec of the federation."""
        old = self.federation
        spec = FederationSpec.model_validate({**old.spec.to_json(), **changes})
        metadata = old.metadata.model_copy(update={"generation": old.metadata.generation + 1})
        self.federation = old.model_copy(update={"spec": spec, "metadata": metadata})

    def suspend(self, chance: random.Random) -> None:
        self.edit(suspend=not self.federation.spec.suspend)

    def grow(self, chance: random.Random) -> None:
        self.edit(rounds=min(self.federation.spec.rounds + 1, ROUNDS + 2))

    def come_or_go(self, chance: random.Random) -> None:
        """A silo is taken out of the spec, or comes back, or is new."""
        name = chance.choice(list(self.silos))
        kept = [e.to_json() for e in self.federation.spec.environments if e.name != name]
        if len(kept) == len(self.federation.spec.environments):
            kept.append(environment(name, *self.trusted[name][:-1]))
        self.edit(environments=kept)

    def rotate(self, chance: random.Random) -> None:
        """First the others name the new key; at the next call its owner takes it."""
        name = chance.choice(list(KEYS))
        new, both = NEW_KEYS[name], [NEW_KEYS[name].public, KEYS[name].public]
        if len(self.trusted[name]) == 1:
            self.trusted[name] = both
            self.name_key(name, both)
            return
        if name == "coordinator":
            self.coordinator.key = new
            exchange = self.federation.spec.to_json()["exchange"]
            self.edit(exchange={**exchange, "publicKeys": both})
            return
        self.parties[name].key = new
        self.respecify(name, public_keys=both)

    def name_key(self, name: str, keys: list[str]) -> None:
        if name == "coordinator":
            for silo in self.silos.values():
                ours = silo.spec.federation.model_copy(update={"public_keys": keys})
                self.respecify(ours.environment, federation=ours)
            return
        environments = [e.to_json() for e in self.federation.spec.environments]
        known = [
            {**e, "member": {"publicKeys": keys}} if e["name"] == name else e for e in environments
        ]
        self.edit(environments=known)

    def respecify(self, name: str, **changes: object) -> None:
        silo = self.silos[name]
        spec = silo.spec.model_copy(update=changes)
        self.silos[name] = silo.model_copy(update={"spec": spec})

    # -- what must hold -----------------------------------------------------------------------

    def check(self) -> None:
        status = self.federation.status
        assert status.phase == "Succeeded", status.conditions
        numbers = [entry.round for entry in status.history]
        assert numbers == sorted(set(numbers)), "a round number was used twice"
        assert status.completed == self.federation.spec.rounds
        for name in self.silos:
            self.check_log(name, ORDERS, "coordinator")
            self.check_log(name, ANSWERS, name)

    def check_log(self, name: str, log, writer: str) -> None:
        box = Mailbox(
            store=self.store,
            prefix="run",
            log=log,
            run=self.run,
            environment=name,
            trusted=tuple(self.trusted[writer]),
        )
        reading = box.read(Cursor(), most=1000)
        written = [k for k in self.store.objects if k.startswith(log.key("run", name, 0)[:-11])]
        assert len(reading.entries) == len(written) and not reading.faults


def test_undisturbed_both_kinds_of_silos_take_part_in_every_round() -> None:
    world = World()
    world.calm()
    world.check()
    done = [e for e in world.federation.status.history if e.outcome == "aggregated"]
    assert [e.updates for e in done] == ["3/3"] * ROUNDS
    for silo in (world.silos[name] for name in SILOS):
        assert [r.outcome for r in silo.status.rounds] == ["answered"] * (ROUNDS + 1)


EDITS = (World.suspend, World.grow, World.come_or_go, World.rotate)


def disturbed(seed: int, *, edits: bool = False) -> World:
    """A schedule of passes, Jobs, losses, waits and edits at random; then everybody is calm."""
    chance, world = random.Random(seed), World()
    for _ in range(chance.randint(5, 120)):
        who = chance.choice(["coordinator", *SILOS, *([LATER] if edits else [])])
        what = chance.random()
        party = world.coordinator if who == "coordinator" else world.parties[who]
        if edits and chance.random() < 0.05:
            chance.choice(EDITS)(world, chance)
        elif what < 0.5:
            lost = chance.random() < 0.2
            world.plan(lost=lost) if who == "coordinator" else world.follow(who, lost=lost)
        elif what < 0.9 and party.active():
            fault = chance.choice(["", "", "", "", "dies", "loses"])
            party.run(chance.choice(party.active()), fault=fault)
        else:
            world.now += timedelta(seconds=chance.choice([0.5, 2, 10, 60]))
    world.calm()
    return world


SCHEDULES = [
    pytest.param(range(8), id="a few"),
    pytest.param(range(8, 60), id="dozens", marks=pytest.mark.slow),
    pytest.param(range(1000, 6000), id="thousands", marks=pytest.mark.full),
]


@pytest.mark.parametrize("edits", [False, True], ids=["", "edited"])
@pytest.mark.parametrize("seeds", SCHEDULES)
def test_whatever_is_lost_every_round_ends_and_everybody_rests(seeds: range, edits: bool) -> None:
    """Edits: suspended, resumed, grown, silos removed, added and back, and keys changed."""
    for seed in seeds:
        disturbed(seed, edits=edits).check()
