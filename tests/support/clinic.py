"""A silo elsewhere, `clinic`, driven through the plan of a FederationMember."""

from datetime import UTC, datetime, timedelta

from hansa.api.assignment import ClientReport, EvaluateReport, EvaluationReport
from hansa.api.bucket_documents import Counts
from hansa.api.exchange import Cursor
from hansa.api.jobs import ObservedJob
from hansa.api.letters import Reference
from hansa.api.member_status import FederationMember
from hansa.api.silo_assignment import NewestOrder, SiloReport
from hansa.api.spec import Metadata
from hansa.plan.member_plan import follow
from tests.support.members import member

NOW = datetime(2026, 11, 17, 10, tzinfo=UTC)


REPORT = ClientReport(
    environment=0,
    round=1,
    trained=True,
    manifest="a" * 64,
    adapter="b" * 64,
    counts=Counts(explored=10, succeeded=4, experience=14),
)


EVALUATED = EvaluateReport(
    environment=0, evaluation=EvaluationReport(round=3, episodes=10, successes=5)
)


def digest(serial: int) -> str:
    return f"{serial:064x}"


class Clinic:
    """A silo whose Jobs are a dictionary; `turn` plans until nothing changes."""

    def __init__(self, **changes):
        self.silo = FederationMember(metadata=Metadata(name="five"), spec=member(**changes))
        self.jobs = {}
        self.requests = {}
        self.events = []
        self.now = NOW
        self.wake_at = None
        self.serial = 0

    @property
    def status(self):
        return self.silo.status

    def turn(self):
        for _ in range(20):
            next_ = follow(self.silo, list(self.jobs.values()), self.now)
            for name in next_.delete:
                self.jobs.pop(name)
            for request in next_.create:
                assert request.name not in self.jobs
                self.requests[request.name] = request
                self.set(request.name, "starting")
            self.events += next_.events
            self.wake_at = next_.wake_at
            is_new = next_.status != self.status
            self.silo = self.silo.model_copy(update={"status": next_.status})
            if not is_new and not next_.create and not next_.delete:
                return self
        raise AssertionError("the plan never comes to rest")

    def wait(self, **time):
        self.now += timedelta(**time)
        return self.turn()

    def wake(self):
        """Plan when the last plan asked for it."""
        self.now = self.wake_at
        return self.turn()

    def set(self, name, state, **fields):
        request = self.requests[name]
        if state != "starting" and state != "queued":
            fields.setdefault("started_at", self.now)
        self.jobs[name] = ObservedJob(
            name=name,
            role=request.role,
            round=request.round,
            environment=request.environment,
            attempt=request.attempt,
            state=state,
            created_at=fields.pop("created_at", self.now),
            **fields,
        )
        return self

    def active(self):
        return sorted(name for name, job in self.jobs.items() if job.is_active)

    @property
    def courier(self):
        return next((n for n in self.active() if "-mail-" in n), None)

    @property
    def job(self):
        return next((n for n in self.active() if "-mail-" not in n), None)

    def owed(self):
        """What the running courier is to post."""
        return [letter.kind for letter in self.requests[self.courier].assignment.post]

    def report(self, **fields):
        self.set(self.courier, "succeeded", report=SiloReport(**fields))
        return self.turn()

    def post(self):
        """The courier has posted everything."""
        count = len(self.owed())
        head = Cursor(serial=self.status.sent.serial + count, digest=digest(7))
        return self.report(sent=head, posted=count)

    def order(self, **fields):
        """The courier has read a newer order."""
        self.serial += 1
        fields = {"kind": "work", "role": "client", "round": 1, "episodes": 164, **fields}
        newest = NewestOrder(
            order=Reference(serial=self.serial, digest=digest(self.serial)),
            round_seconds=3600,
            **fields,
        )
        head = Cursor(serial=self.serial, digest=digest(self.serial))
        count = len(self.owed())
        return self.report(received=head, newest=newest, posted=count)

    def reasons(self):
        return [event.reason for event in self.events]


def working(**changes):
    """A silo that has taken round 1 on."""
    return Clinic(**changes).turn().post().order()


WINDOW = {"limits": {"windows": [{"from": "20:00", "to": "06:00"}]}}


def edited(clinic, **changes):
    clinic.silo = clinic.silo.model_copy(update={"spec": member(**changes)})
    return clinic.turn()
