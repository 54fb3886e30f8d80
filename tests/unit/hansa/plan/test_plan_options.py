"""Options of a world may change in a run, and never unseen."""

import pytest

from tests.support.builders import with_spec
from tests.support.simulated_cluster import Cluster


def maze(**options):
    return {"name": "maze", "world": "maze", "options": options}


WORDLE = {"name": "wordle", "world": "wordle"}


def list_changes(cluster: Cluster) -> list[str]:
    return [event.message for event in cluster.events if event.reason == "SettingsChanged"]


def change(cluster: Cluster, *environments) -> Cluster:
    cluster.federation = with_spec(cluster.federation, environments=list(environments))
    return cluster.turn()


@pytest.mark.attack(
    by="the author of a Federation",
    does="changes a world's options during a run",
    result="an Event reports it",
)
def test_other_options_of_a_world_are_told_once_by_a_warning():
    cluster = Cluster("maze", "wordle", rounds=4).run_round()
    assert list_changes(cluster) == []
    change(cluster, maze(size=5), WORDLE)
    assert list_changes(cluster) == [
        "maze: the options of its world changed, which counts from the next round on"
    ]
    assert all(event.warning for event in cluster.events if event.reason == "SettingsChanged")
    cluster.run_round()
    assert cluster.requests["fed-r3-maze-a1"].assignment.options == {"size": 5}
    assert len(list_changes(cluster)) == 1
    change(cluster, maze(), WORDLE)
    assert len(list_changes(cluster)) == 2


def test_options_that_change_while_a_silo_is_away_or_all_is_suspended_are_told():
    cluster = Cluster("maze", "wordle", rounds=9).turn()
    change(cluster, WORDLE)
    change(cluster, WORDLE, maze(size=5))
    assert len(list_changes(cluster)) == 1
    cluster.federation = with_spec(
        cluster.federation, suspend=True, environments=[maze(size=6), WORDLE]
    )
    cluster.turn()
    assert len(list_changes(cluster)) == 2
