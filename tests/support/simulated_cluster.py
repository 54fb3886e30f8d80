"""A cluster in memory that runs what plan() asks for."""

from hansa.plan.federation import plan
from tests.support.builders import (
    NOW,
    later,
    make_federation,
    make_job,
    make_report,
    with_spec,
    with_status,
)


class Cluster:
    """A federation and its Jobs; tests move the Jobs, and `turn` plans until nothing changes."""

    def __init__(self, *environments, **fields):
        self.federation = make_federation(*environments, **fields)
        self.jobs = {}
        self.requests = {}
        self.events = []
        self.now = NOW
        self.wake_at = None

    @property
    def status(self):
        return self.federation.status

    def turn(self):
        for _ in range(20):
            next_ = plan(self.federation, list(self.jobs.values()), self.now)
            for name in next_.delete:
                self.jobs.pop(name)
            for request in next_.create:
                assert request.name not in self.jobs
                self.requests[request.name] = request
                self.jobs[request.name] = make_job(request, "starting", created_at=self.now)
            self.events += next_.events
            self.wake_at = next_.wake_at
            is_new = next_.status != self.status
            self.federation = with_status(self.federation, next_.status)
            if not is_new and not next_.create and not next_.delete:
                return self
        raise AssertionError("the plan never comes to rest")

    def plan_at(self, seconds):
        """Plan that many seconds after the beginning."""
        self.now = later(seconds)
        return self.turn()

    def change(self, **spec):
        """Plan with other fields of the spec."""
        self.federation = with_spec(self.federation, **spec)
        return self.turn()

    def annotate(self, name, value):
        """Plan with what a person asks for."""
        metadata = self.federation.metadata.model_copy(update={"annotations": {name: value}})
        self.federation = self.federation.model_copy(update={"metadata": metadata})
        return self.turn()

    def set(self, name, state, **fields):
        self.jobs[name] = make_job(self.requests[name], state, **fields)
        return self

    def answer(self, *names, **fields):
        for name in names:
            request = self.requests[name]
            self.set(name, "succeeded", report=make_report(request, **fields))
        return self

    def active(self):
        return sorted(name for name, job in self.jobs.items() if job.is_active)

    def condition(self, type_):
        return next(c for c in self.status.conditions if c.type == type_)

    def run_round(self):
        self.turn()
        self.answer(*self.active()).turn()
        self.answer(*self.active()).turn()
        return self
