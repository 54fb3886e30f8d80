"""The state machine, one behaviour per test, on a cluster that is a dictionary."""

import pytest

from hansa.core.errors import PermanentError
from hansa.plan import job_requests
from hansa.plan.federation import plan
from tests.support.builders import (
    NOW,
    later,
    with_spec,
    with_status,
)
from tests.support.simulated_cluster import Cluster


def test_a_federation_opens_round_one_with_a_client_per_environment():
    cluster = Cluster("maze", "wordle").turn()
    assert cluster.active() == ["fed-r1-maze-a1", "fed-r1-wordle-a1"]
    assert cluster.status.phase == "Running"
    assert cluster.status.current.start.round == 0


def test_members_are_in_the_status_before_the_aggregator_is_created():
    cluster = Cluster("maze", "wordle").turn()
    cluster.answer(*cluster.active())
    next_ = plan(cluster.federation, list(cluster.jobs.values()), NOW)
    assert [m.environment for m in next_.status.current.members] == ["maze", "wordle"]
    assert next_.create == []
    assert next_.wake_at == NOW
    cluster.turn()
    assert cluster.active() == ["fed-r1-aggregator-a1"]
    assignment = cluster.requests["fed-r1-aggregator-a1"].assignment
    assert assignment.members == cluster.status.current.members


def test_two_rounds_then_the_last_adapter_is_evaluated_then_done():
    cluster = Cluster("maze", "wordle").run_round().run_round()
    assert cluster.active() == ["fed-e2-maze-a1", "fed-e2-wordle-a1"]
    assert cluster.condition("Progressing").reason == "Evaluating"
    cluster.answer(*cluster.active(), successes=9).turn()
    assert cluster.status.phase == "Succeeded"
    assert cluster.condition("Succeeded").status == "True"
    assert [e.round for e in cluster.status.history] == [0, 1, 2]
    assert cluster.status.history[2].success == {"maze": 0.9, "wordle": 0.9}
    assert cluster.status.success == "0.900"
    assert cluster.status.best.round == 2
    assert cluster.status.adapter.uri == "s3://bucket/run/global/00002/"
    assert cluster.wake_at is None


def test_it_has_not_succeeded_before_the_last_adapter_was_evaluated():
    cluster = Cluster("maze", rounds=1).turn().answer("fed-r1-maze-a1").turn()
    cluster.answer("fed-r1-aggregator-a1")
    next_ = plan(cluster.federation, list(cluster.jobs.values()), NOW)
    assert next_.status.current is None
    assert next_.status.phase == "Running"


def test_growing_the_rounds_of_a_finished_federation_goes_on():
    cluster = Cluster("maze", rounds=1).run_round()
    cluster.answer(*cluster.active()).turn()
    assert cluster.status.phase == "Succeeded"
    cluster.change(rounds=2)
    assert cluster.active() == ["fed-r2-maze-a1"]


def test_no_job_is_made_without_a_store():
    cluster = Cluster("maze").turn()
    bare = with_spec(cluster.federation, storage=None)
    with pytest.raises(PermanentError, match=r"spec\.storage: got nothing, expected storage"):
        job_requests.build_client_assignment(bare, cluster.status.current, "maze")


def test_a_round_keeps_the_settings_it_opened_with():
    cluster = Cluster("maze").turn()
    cluster.federation = with_spec(cluster.federation, exploration={"tasksPerRound": 3})
    cluster.set("fed-r1-maze-a1", "failed", exit_code=1).turn()
    cluster.plan_at(5)
    assert cluster.requests["fed-r1-maze-a2"].assignment.settings.exploration.tasks_per_round == 64
    cluster.answer("fed-r1-maze-a2").turn()
    cluster.answer(*cluster.active()).turn()
    assert cluster.requests["fed-r2-maze-a1"].assignment.settings.exploration.tasks_per_round == 3


def test_an_environment_without_experience_answers_but_is_no_member():
    cluster = Cluster("maze", "wordle").turn()
    cluster.answer("fed-r1-maze-a1").answer("fed-r1-wordle-a1", trained=False).turn()
    assignment = cluster.requests["fed-r1-aggregator-a1"].assignment
    assert [m.environment for m in assignment.members] == ["maze"]
    assert assignment.minimum == 1


def test_a_round_in_which_nobody_learned_counts_and_keeps_the_adapter():
    cluster = Cluster("maze", rounds=2).turn()
    cluster.answer("fed-r1-maze-a1", trained=False).turn()
    assert cluster.status.history[-1].outcome == "empty"
    assert cluster.condition("Degraded").reason == "NothingToLearn"
    assert cluster.active() == ["fed-r2-maze-a1"]
    cluster.answer("fed-r2-maze-a1", trained=False).turn()
    assert cluster.status.phase == "Succeeded"
    assert cluster.status.adapter is None


def test_suspending_ends_the_jobs_and_resuming_starts_the_same_attempts_again():
    cluster = Cluster("maze", "wordle").turn()
    cluster.set("fed-r1-maze-a1", "running").answer("fed-r1-wordle-a1").turn()
    cluster.change(suspend=True)
    assert cluster.active() == []
    assert cluster.status.phase == "Suspended"
    cluster.change(suspend=False)
    assert cluster.active() == ["fed-r1-maze-a1"]
    assert [e.reason for e in cluster.events][-2:] == ["Suspended", "Resumed"]


def test_an_immutable_field_that_changed_is_a_condition_and_nothing_is_touched():
    cluster = Cluster("maze").turn()
    cluster.set("fed-r1-maze-a1", "running").turn()
    good = cluster.federation
    cluster.change(seed=8)
    assert cluster.condition("Accepted").status == "False"
    assert "spec.seed: got 8, expected 7" in cluster.condition("Accepted").message
    assert cluster.active() == ["fed-r1-maze-a1"]
    cluster.federation = with_status(good, cluster.status)
    cluster.turn()
    assert cluster.condition("Accepted").status == "True"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rounds": 1}, "spec.rounds: got 1, expected 2 or more"),
        (
            {"environments": [{"name": "maze", "world": "wordle"}]},
            "spec.environments.maze.world: got wordle",
        ),
        ({"model": {"source": "path:/m"}}, "spec.model.source: got path:/m"),
        ({"storage": {"s3": {"bucket": "other"}}}, "spec.storage.s3.bucket: got other"),
    ],
)
def test_each_immutable_field_is_named(change, sentence):
    cluster = Cluster("maze").turn()
    cluster.change(**change)
    assert sentence in cluster.condition("Accepted").message


def test_an_environment_that_left_the_spec_is_dropped_and_one_that_joins_waits_for_the_next_round():
    cluster = Cluster("maze", "wordle", rounds=2).turn()
    cluster.federation = with_spec(
        cluster.federation,
        environments=[{"name": "maze", "world": "maze"}, {"name": "shop", "world": "webshop"}],
    )
    cluster.turn()
    assert cluster.active() == ["fed-r1-maze-a1"]
    cluster.answer("fed-r1-maze-a1").turn()
    cluster.answer("fed-r1-aggregator-a1").turn()
    assert cluster.active() == ["fed-r2-maze-a1", "fed-r2-shop-a1"]


def test_a_round_whose_environments_all_left_does_not_count_and_the_next_one_opens():
    cluster = Cluster("maze", rounds=1).turn()
    shop = [{"name": "shop", "world": "webshop"}]
    cluster.change(environments=shop)
    assert cluster.status.completed == 0
    assert [entry.outcome for entry in cluster.status.history] == ["base", "failed"]
    assert cluster.active() == ["fed-r2-shop-a1"]


def test_evaluating_every_second_round_leaves_the_others_out_but_never_the_last():
    cluster = Cluster("maze", rounds=3, evaluation={"everyRounds": 2})
    cluster.run_round().run_round().run_round()
    cluster.answer(*cluster.active()).turn()
    evaluated = [e.round for e in cluster.status.history if e.success]
    assert evaluated == [0, 2, 3]


def test_planning_again_in_an_unchanged_world_changes_nothing():
    cluster = Cluster("maze", "wordle").turn()
    cluster.set("fed-r1-maze-a1", "running").turn()
    again = plan(cluster.federation, list(cluster.jobs.values()), later(30))
    assert again.status == cluster.status
    assert (again.create, again.delete, again.events) == ([], [], [])


def test_history_keeps_the_base_the_best_and_the_newest():
    cluster = Cluster("maze", rounds=60)
    for round_ in range(1, 61):
        cluster.turn()
        cluster.answer(f"fed-r{round_}-maze-a1", successes=9 if round_ == 4 else 5).turn()
        cluster.answer(f"fed-r{round_}-aggregator-a1").turn()
    rounds = [e.round for e in cluster.status.history]
    assert rounds[:2] == [0, 3]  # round 4's client evaluated the adapter of round 3
    assert rounds[2:] == list(range(11, 61))
    assert cluster.status.best.round == 3


def test_one_of_a_thing_is_told_in_the_singular():
    cluster = Cluster("maze", rounds=1).turn().answer("fed-r1-maze-a1").turn()
    cluster.answer("fed-r1-aggregator-a1").turn().answer("fed-e1-maze-a1").turn()
    lines = [event.message for event in cluster.events]
    assert lines == [
        "round 1 opened for 1 environment",
        "round 1 aggregates 1 update",
        "round 1 aggregated 1 update",
        "the adapter of round 1 was evaluated",
        "1 round done",
    ]
    assert cluster.condition("Succeeded").message == "1 of 1 round done"
