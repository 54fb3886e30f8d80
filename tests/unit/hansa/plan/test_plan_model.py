"""A model of a cluster that fails in every way at random: the plan's promises hold all the same."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hansa.api.constants import ANNOTATION_RETRY, ANNOTATION_ROLLBACK
from hansa.plan.federation import plan
from tests.support.builders import (
    NOW,
    make_federation,
    make_job,
    make_report,
    with_spec,
    with_status,
)

ENVIRONMENTS = ("babyai", "maze", "wordle")
FAILURES = st.sampled_from(
    [
        {"exit_code": 1},
        {"exit_code": 137},
        {"exit_code": 42},
        {"exit_code": 43},
        {"exit_code": 44},
        {"reason": "Disrupted"},
        {"reason": "CannotStart"},
        {"reason": "DeadlineExceeded"},
    ]
)


class Model(RuleBasedStateMachine):
    """Jobs start, wait, crash, vanish and answer in any order; users suspend, retry and edit."""

    def __init__(self):
        super().__init__()
        fields = {"rounds": 3, "participation": {"minimumUpdates": 2, "retries": 1}}
        self.federation = make_federation(*ENVIRONMENTS, **fields)
        self.jobs = {}
        self.requests = {}
        self.committed = {}  # what the store holds: round -> members, written once
        self.told_members = {}
        self.events = []
        self.trained = set()  # (round, environment) of every update that was really sent
        self.now = NOW
        self.wake_at = NOW

    def active(self):
        return sorted(name for name, job in self.jobs.items() if job.is_active)

    @rule(forget_status=st.booleans())
    def reconcile(self, forget_status):
        """One turn; sometimes the executor is killed after creating Jobs, before writing status."""
        next_ = plan(self.federation, list(self.jobs.values()), self.now)
        for name in next_.delete:
            self.jobs.pop(name, None)
        for request in next_.create:
            self.requests[request.name] = request
            if request.name not in self.jobs:
                self.jobs[request.name] = make_job(request, "starting", created_at=self.now)
            if request.assignment.own_start:
                own = (request.assignment.start.round, request.environment)
                assert own in self.trained, "a start that was never sent"
            if request.role == "aggregator":
                known = self.told_members.setdefault(request.round, request.assignment.members)
                assert known == request.assignment.members, "members changed after the freeze"
                members = {(request.round, m.environment) for m in known}
                assert members <= self.trained, "a member that sent no update"
        self.events += next_.events
        if not forget_status:
            self.wake_at = next_.wake_at
            self.federation = with_status(self.federation, next_.status)

    @precondition(lambda self: self.active())
    @rule(data=st.data(), state=st.sampled_from(["queued", "starting", "running"]))
    def move(self, data, state):
        name = data.draw(st.sampled_from(self.active()))
        started = self.now if state == "running" else None
        self.jobs[name] = make_job(
            self.requests[name], state, created_at=self.now, started_at=started
        )

    @rule(trained=st.lists(st.sampled_from([True, True, True, False]), min_size=3, max_size=3))
    def answer_all(self, trained):
        """A good day: every Job that runs now answers, so that walks get past the first round."""
        self.reconcile(forget_status=False)
        for name, is_trained in zip(self.active(), trained, strict=False):
            self.finish(name, is_trained, lost=False)
        self.reconcile(forget_status=False)

    @precondition(lambda self: self.active())
    @rule(data=st.data(), trained=st.booleans(), lost=st.booleans())
    def succeed(self, data, trained, lost):
        self.finish(data.draw(st.sampled_from(self.active())), trained, lost)

    def finish(self, name, trained, lost):
        request = self.requests[name]
        start = request.assignment.start.round
        report = make_report(request, trained=trained, successes=(start * 7 + 3) % 11)
        if request.role == "aggregator":
            members = tuple(m.environment for m in request.assignment.members)
            assert members, "an aggregator without members"
            assert self.committed.setdefault(request.round, members) == members
        if trained and request.role == "client":
            self.trained.add((request.round, request.environment))
        self.jobs[name] = make_job(
            request, "succeeded", report=None if lost else report, started_at=self.now
        )

    @precondition(lambda self: self.active())
    @rule(data=st.data(), failure=FAILURES)
    def fail(self, data, failure):
        name = data.draw(st.sampled_from(self.active()))
        self.jobs[name] = make_job(self.requests[name], "failed", started_at=self.now, **failure)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def vanish(self, data):
        self.jobs.pop(data.draw(st.sampled_from(sorted(self.jobs))))

    @rule(seconds=st.sampled_from([1, 60, 700, 4000]))
    def pass_time(self, seconds):
        self.now += timedelta(seconds=seconds)

    @rule(suspend=st.booleans())
    def set_suspend(self, suspend):
        self.federation = with_spec(self.federation, suspend=suspend)

    @rule(token=st.sampled_from(["a", "b", "c"]))
    def ask_for_a_retry(self, token):
        self.annotate(ANNOTATION_RETRY, token)

    @rule(round_=st.integers(0, 5), token=st.sampled_from(["a", "b"]))
    def ask_for_a_rollback(self, round_, token):
        self.annotate(ANNOTATION_ROLLBACK, f"{round_}@{token}")

    def annotate(self, key, value):
        annotations = {**self.federation.metadata.annotations, key: value}
        metadata = self.federation.metadata.model_copy(update={"annotations": annotations})
        self.federation = self.federation.model_copy(update={"metadata": metadata})

    @rule(strategy=st.sampled_from(["mean", "none"]))
    def choose_strategy(self, strategy):
        guard = None if strategy == "none" else self.federation.spec.to_json().get("guard")
        fields = {"aggregation": {"strategy": strategy}, "guard": guard}
        self.federation = with_spec(self.federation, **fields)

    @precondition(lambda self: self.federation.spec.aggregation.strategy != "none")
    @rule(action=st.sampled_from(["rollback", "pause", "none"]))
    def choose_guard(self, action):
        self.federation = with_spec(self.federation, guard={"action": action})

    @rule(names=st.sets(st.sampled_from(ENVIRONMENTS), min_size=2))
    def choose_environments(self, names):
        environments = [{"name": name, "world": name} for name in sorted(names)]
        self.federation = with_spec(self.federation, environments=environments)

    @invariant()
    def no_round_is_skipped_or_used_twice(self):
        status = self.federation.status
        rounds = [entry.round for entry in status.history]
        assert rounds == list(range(len(rounds)))
        open_ = status.current.round if status.current and status.current.kind == "round" else None
        assert status.round == (open_ if open_ is not None else (rounds[-1] if rounds else 0))

    @invariant()
    def only_committed_rounds_have_an_adapter(self):
        status = self.federation.status
        aggregated = [e.round for e in status.history if e.outcome == "aggregated"]
        assert set(aggregated) <= set(self.committed)
        lines = [event.reason for event in self.events]
        kept = status.adapter.round if status.adapter else None
        if "RolledBack" in lines or "BestKept" in lines:
            assert kept is None or kept in aggregated
        else:
            assert kept == (aggregated[-1] if aggregated else None)

    @invariant()
    def completed_counts_what_ended_well(self):
        status = self.federation.status
        ended = [e for e in status.history if e.outcome not in ("base", "failed", "undone")]
        assert status.completed == len(ended)
        assert status.completed <= self.federation.spec.rounds

    @invariant()
    def a_standstill_has_a_name(self):
        """Brought to rest, a federation is done, waits for a person, a queue or a running Job."""
        federation, jobs, wake_at = self.federation, dict(self.jobs), None
        for _ in range(20):
            next_ = plan(federation, list(jobs.values()), self.now)
            for name in next_.delete:
                jobs.pop(name, None)
            for request in next_.create:
                jobs.setdefault(request.name, make_job(request, "starting", created_at=self.now))
            is_same = next_.status == federation.status and not next_.create
            federation, wake_at = with_status(federation, next_.status), next_.wake_at
            if is_same:
                break
        else:
            raise AssertionError("the plan never comes to rest")
        status = federation.status
        waits = wake_at is not None or any(job.is_active for job in jobs.values())
        assert waits or status.phase in ("Succeeded", "Failed", "Suspended")
        if status.phase == "Failed":
            progressing = next(c for c in status.conditions if c.type == "Progressing")
            assert progressing.message

    def teardown(self):
        """Left alone with healthy Jobs, every federation ends."""
        self.federation = with_spec(self.federation, suspend=False)
        for turn in range(400):
            self.now += timedelta(seconds=61)
            self.ask_for_a_retry(f"end-{turn}")
            self.reconcile(forget_status=False)
            for name in self.active():
                request = self.requests[name]
                if request.role == "aggregator":
                    members = tuple(m.environment for m in request.assignment.members)
                    assert self.committed.setdefault(request.round, members) == members
                self.trained.add((request.round, request.environment))
                self.jobs[name] = make_job(request, "succeeded", started_at=self.now)
            if self.federation.status.phase == "Succeeded":
                break
        assert self.federation.status.phase == "Succeeded"
        self.no_round_is_skipped_or_used_twice()


Model.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestPlanModel = pytest.mark.slow(Model.TestCase)
