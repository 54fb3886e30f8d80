"""What the page says of kinds of tasks: shares, success, and what a silo chose."""

from hansa import keys
from hansa.manifest import Controlled, Learning
from hansa.report import kinds
from hansa.report.data import collect
from hansa.report.page import render
from tests.unit.hansa.report import sample
from tests.unit.hansa.report.sample import PREFIX, MemoryStore


def page(**by_round: Learning) -> str:
    """The page of a federation whose maze tells this of its rounds."""
    given = sample.federation(2)
    store = sample.fill(MemoryStore(), given)
    for number, learning in by_round.items():
        key = keys.update_folder(PREFIX, "maze", int(number[1:])) + keys.MANIFEST
        store.objects[key] = sample.update("maze", int(number[1:]), learning=learning)
    return render(collect(given, store))


def test_an_environment_with_several_kinds_shows_their_shares_and_success() -> None:
    first = Learning(groups={"near": [3, 4], "far": [0, 4]})
    second = Learning(groups={"near": [1, 1], "far": [2, 7]})
    shown = page(r1=first, r2=second)
    assert 'id="kinds"' in shown
    assert "maze: share of episodes" in shown
    assert "maze: success while exploring" in shown
    assert "near: 3 of 4" in shown
    assert '<th scope="row">far<td>0 of 4<td>2 of 7' in shown
    assert "babyai: share of episodes" not in shown


def test_where_all_tasks_are_of_one_kind_nothing_is_said() -> None:
    assert 'id="kinds"' not in page()
    assert 'id="kinds"' not in page(r1=Learning(groups={"near": [3, 4]}))


def test_what_a_silo_chose_stands_below_its_kinds() -> None:
    groups = {"near": [3, 4], "far": [0, 4]}
    chosen = Controlled(temperature=0.7, samples_per_task=4, balance=0.25)
    shown = page(r1=Learning(groups=groups), r2=Learning(groups=groups, control=chosen))
    assert '<th scope="row">temperature<td>–<td>0.7' in shown
    assert '<th scope="row">episodes of a task<td>–<td>4' in shown


def test_of_many_kinds_those_played_most_have_a_colour_and_the_rest_is_one() -> None:
    groups = {f"kind {number:02d}": [1, number] for number in range(1, 41)}
    shown = page(r1=Learning(groups=groups))
    assert f"{kinds.OTHERS}: 35 of 630" in shown
    assert "kind 40: 1 of 40" in shown
    assert '<th scope="row">kind 01<td>1 of 1' in shown  # every one is in the table


def test_a_kind_that_a_stranger_named_is_text_and_no_markup() -> None:
    evil = "<script>alert(1)</script>"
    shown = page(r1=Learning(groups={evil: [1, 2], kinds.OTHERS: [1, 2], "near": [0, 1]}))
    assert evil not in shown
    assert "&lt;script&gt;" in shown
    assert f"{kinds.OTHERS}: 1 of 2" in shown
