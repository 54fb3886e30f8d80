"""The choice of tasks follows from seeds, and a world that cannot be made is told by field."""

from collections import Counter

import pytest

from hansa.api.assignment import Assignment
from hansa.core.errors import PermanentError
from hansa_client.rollout.tasks import choose_evaluation_jobs, choose_training_jobs, make_world
from tests.unit.hansa_client.rounds import Assign


def names(assignment: Assignment) -> list[str]:
    tasks = make_world(assignment).tasks("train")
    return [job.task.id for job in choose_training_jobs(assignment, tasks)]


def test_rounds_and_environments_explore_other_tasks_and_attempts_the_same(assign: Assign) -> None:
    assert names(assign()) == names(assign())
    assert names(assign()) != names(assign(round=2))
    assert names(assign()) != names(assign(seed=8))
    assert len(set(names(assign()))) == 6


def test_a_task_is_sampled_several_times_with_other_luck(assign: Assign) -> None:
    assignment = assign(exploration={"tasksPerRound": 4, "samplesPerTask": 3})
    jobs = choose_training_jobs(assignment, make_world(assignment).tasks("train"))
    assert set(Counter(job.task.id for job in jobs).values()) == {3}
    assert len({job.seed for job in jobs}) == 12


def test_more_tasks_than_there_are_come_again_with_other_luck(assign: Assign) -> None:
    assignment = assign(exploration={"tasksPerRound": 7})
    few = make_world(assignment).tasks("train")[:3]
    jobs = choose_training_jobs(assignment, few)
    assert sorted(Counter(job.task.id for job in jobs).values()) == [2, 2, 3]
    assert len({job.seed for job in jobs}) == 7


def test_held_out_tasks_are_the_same_for_every_round_and_more_keep_those_before(
    assign: Assign,
) -> None:
    tasks = make_world(assign()).tasks("test")
    four = choose_evaluation_jobs(assign(), tasks)
    assert choose_evaluation_jobs(assign(round=9), tasks) == four
    assert choose_evaluation_jobs(assign(evaluation={"tasks": 9}), tasks)[:4] == four
    everything = choose_evaluation_jobs(assign(evaluation={"tasks": 99_999}), tasks)
    assert len(everything) == len(tasks) == len({job.task.id for job in everything})


def test_a_held_out_task_is_played_so_often_and_its_first_episode_stays_the_same(
    assign: Assign,
) -> None:
    tasks = make_world(assign()).tasks("test")
    four = choose_evaluation_jobs(assign(), tasks)
    often = choose_evaluation_jobs(assign(evaluation={"tasks": 4, "samplesPerTask": 3}), tasks)
    assert often[::3] == four
    assert set(Counter(job.task.id for job in often).values()) == {3}
    assert len({job.seed for job in often}) == 12


@pytest.mark.parametrize(
    "change, message",
    [
        pytest.param(
            {"world": "chess"}, r"spec.environments\[maze\].world: got 'chess'", id="world"
        ),
        pytest.param(
            {"options": {"size": 99}},
            r"spec.environments\[maze\].options.size: got 99, expected",
            id="option",
        ),
    ],
)
def test_a_world_that_cannot_be_made_names_the_field(
    assign: Assign, change: dict[str, object], message: str
) -> None:
    with pytest.raises(PermanentError, match=f"^{message}"):
        make_world(assign(**change))
