"""What the page says of kinds of tasks: shares and success, round by round."""

import json
import re
from typing import Any

import pytest
from pydantic import ValidationError

from hansa.api import bucket_keys
from hansa.api.bucket_documents import Learning
from hansa.api.privacy import PrivacyStatement
from hansa.api.task_kinds import LONGEST_NAME, MOST_KINDS
from hansa.report.data import collect
from hansa.report.page import DATA_ID, render
from tests.support import report_sample
from tests.support.report_sample import PREFIX, MemoryStore


def page(privacy: PrivacyStatement | None = None, **by_round: dict[str, list[int]]) -> str:
    """The page of a federation whose maze tells this of its rounds."""
    given = report_sample.federation(2)
    store = report_sample.fill(MemoryStore(), given)
    for number, groups in by_round.items():
        key = bucket_keys.update_folder(PREFIX, "maze", int(number[1:])) + bucket_keys.MANIFEST
        learning = Learning(groups=groups)
        store.objects[key] = report_sample.update(
            "maze", int(number[1:]), learning=learning, privacy=privacy
        )
    return render(collect(given, store))


def figures(shown: str) -> dict[str, Any]:
    found = re.search(f'id="{DATA_ID}">(.*?)</script>', shown)
    assert found
    document: dict[str, Any] = json.loads(found[1])["environments"]["maze"]["kinds"]
    return document


def test_an_environment_with_several_kinds_shows_their_shares_and_success() -> None:
    shown = page(r1={"near": [3, 4], "far": [0, 4]}, r2={"near": [1, 1], "far": [2, 7]})
    assert 'id="kinds"' in shown and 'href="#kinds"' in shown
    assert f"maze: the highest bar is 87.5{chr(0x202F)}% of a round" in shown
    # the rest of round 2 of far is drawn above what succeeded: 2 and 5 of 8, of 7 of 8 at most
    far = re.search(r'<th scope="row">far<td>(.*?)</td>(.*?)<tr>', shown)
    assert far
    assert 'class="layer p2"' in far[1] and "M750 24V17.1" in far[1]
    assert 'class="layer p5"' in far[1] and "M750 17.1V0" in far[1]
    assert far[2] == "<td>0 of 4<td>2 of 7"
    assert "Successes of episodes explored by maze" in shown
    assert "babyai: the highest bar" not in shown
    assert figures(shown) == {"far": [None, [0, 4], [2, 7]], "near": [None, [3, 4], [1, 1]]}


def test_where_all_tasks_are_of_one_kind_nothing_is_drawn() -> None:
    assert 'id="kinds"' not in page()
    assert 'id="kinds"' not in page(r1={"near": [3, 4]})


def test_a_kind_that_a_round_did_not_meet_has_no_bar_there_and_no_figure() -> None:
    shown = page(r1={"near": [3, 4], "far": [0, 4]}, r2={"near": [1, 1]})
    assert '<th scope="row">far<td>0 of 4<td>–' in shown


def test_one_round_alone_is_shown_once() -> None:
    assert shown_heads(page(r1={"near": [3, 4], "far": [0, 4]})) == ["kind", "share", "round 1"]


def shown_heads(shown: str) -> list[str]:
    head = shown[shown.index("maze: the highest bar") :].partition("</thead>")[0]
    return re.findall(r'<th scope="col">([^<]*)', head)


def test_kinds_that_are_counted_together_are_explained() -> None:
    words = "two more kinds are counted with it"
    assert words in page(r1={"level 01 +3": [1, 2], "level 05 +3": [1, 2]})
    assert words not in page(r1={"level 01": [1, 2], "level 05": [1, 2]})


@pytest.mark.attack(
    by="a silo",
    does="names kinds of tasks without end, or by hostile text",
    result="the report or update is malformed; metrics have at most 12 kinds per environment",
)
@pytest.mark.parametrize(
    "groups",
    [
        pytest.param({"<script>alert(1)</script>": [1, 2]}, id="markup"),
        pytest.param({"x" * (LONGEST_NAME + 1): [1, 2]}, id="long"),
        pytest.param({f"task {number}": [1, 1] for number in range(MOST_KINDS + 1)}, id="many"),
    ],
)
def test_an_update_with_other_names_than_kinds_is_malformed(groups: dict[str, list[int]]) -> None:
    with pytest.raises(ValidationError, match="groups"):
        Learning.model_validate({"groups": groups})


def test_what_a_private_update_says_of_kinds_is_not_repeated() -> None:
    private = PrivacyStatement(
        unit="task",
        epsilon=1.0,
        delta=1e-5,
        noise_multiplier=1.0,
        clip_norm=1.0,
        sampling_rate=0.1,
        steps=3,
        rounds=1,
    )
    shown = page(private, r1={"near": [3, 4], "far": [0, 4]})
    assert 'id="kinds"' not in shown
    assert figures(shown) == {}


def test_fifty_rounds_of_twelve_kinds_in_five_worlds_leave_the_page_small() -> None:
    given = report_sample.federation(50)
    store = report_sample.fill(MemoryStore(), given)
    plain = len(render(collect(given, store)))
    full = render(collect(given, report_sample.write_kinds(store, given)))
    assert 'id="kinds"' in full
    assert len(full) - plain < 150_000
