"""A coordinator of silos that run elsewhere, whose letters a test writes and reads."""

from hansa.api.courier_assignment import CourierReport, LetterSummary, LogAdvance
from hansa.api.exchange import MemberStatus
from hansa.api.jobs import JobRequest
from hansa.api.status import FederationStatus
from hansa.plan.job_requests import build_client_assignment
from tests.support.builders import make_report, with_status
from tests.support.simulated_cluster import Cluster

KEY = "ed25519:" + "A" * 43
REMOTE = {"member": {"publicKeys": [KEY]}}


def digest(serial: int) -> str:
    return f"{serial:064x}"


class Letters(Cluster):
    """A coordinator with `maze` of its own, and with clinics elsewhere that tests speak for."""

    def __init__(self, *clinics, **fields):
        self.serials = dict.fromkeys(clinics, 0)
        environments = [{"name": "maze", "world": "maze"}]
        environments += [{"name": name, **REMOTE} for name in clinics]
        fields.setdefault("environments", environments)
        super().__init__(
            exchange={"publicKeys": [KEY]},
            model={"sha256": "b" * 64},
            adapter={"shapes": "d" * 64},
            **fields,
        )

    @property
    def courier(self):
        """What the running courier was told."""
        name = next((n for n in self.active() if "-mail-" in n), None)
        return self.requests[name].assignment if name else None

    def running(self, part):
        """The name of the running Job of a part: `mail`, `aggregator` or an environment."""
        return next(name for name in self.active() if f"-{part}-" in name)

    def member(self, name):
        return next(m for m in self.status.members if m.name == name)

    def report(self, report):
        """The courier ends with a report."""
        return self.set(self.running("mail"), "succeeded", report=report).turn()

    def deliver(self):
        """The courier has posted what it was to post."""
        boxes = self.courier.boxes
        posted = [
            LogAdvance(
                box=index,
                serial=box.sent.serial + 1,
                digest=digest(box.sent.serial + 1),
                order=box.order,
            )
            for index, box in enumerate(boxes)
            if box.order
        ]
        return self.report(CourierReport(posted=posted))

    def hear(self, name, kind, **fields):
        """The courier has read one letter of a clinic."""
        boxes = self.courier.boxes
        index = next(i for i, box in enumerate(boxes) if box.environment == name)
        self.serials[name] += 1
        serial = self.serials[name]
        if kind not in ("hello", "leave"):
            fields.setdefault("order", boxes[index].sent.serial)
        return self.report(
            CourierReport(
                read=[LogAdvance(box=index, serial=serial, digest=digest(serial))],
                news=[LetterSummary(box=index, kind=kind, **fields)],
            )
        )

    def answered(self, name, **fields):
        """The clinic's answer to the order of the open round."""
        current = self.status.current
        assignment = build_client_assignment(self.federation, current, name)
        request = JobRequest(
            name="",
            role=assignment.role,
            round=current.round,
            environment=name,
            attempt=1,
            assignment=assignment,
        )
        return self.hear(name, "answer", report=make_report(request), **fields)

    def state(self, name):
        return next(e.state for e in self.status.current.environments if e.name == name)

    def reasons(self):
        return [event.reason for event in self.events]

    def play_round(self, *clinics):
        """Everybody takes part, and the aggregator commits."""
        self.deliver()
        for name in clinics:
            self.hear(name, "taken")
        self.answer("maze")
        for name in clinics:
            self.answered(name)
        return self.aggregate()

    def answer(self, environment):
        names = [n for n in self.active() if f"-{environment}-" in n]
        return super().answer(*names).turn()

    def aggregate(self):
        names = [n for n in self.active() if "-aggregator-" in n]
        return super().answer(*names).turn()


def opened(*clinics, **fields):
    """A federation whose clinics are there, so that round 1 is open."""
    cluster = Letters(*clinics, **fields)
    if "participation" in fields:  # with a low minimum it would open without them
        there = [MemberStatus(name=name, state="Present") for name in sorted(clinics)]
        cluster.federation = with_status(cluster.federation, FederationStatus(members=there))
        return cluster.turn()
    cluster.turn()
    for name in clinics:
        cluster.hear(name, "hello")
    return cluster
