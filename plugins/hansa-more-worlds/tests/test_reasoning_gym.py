"""World `reasoning-gym`: known answers count, hostile ones are never evaluated."""

import re
import sys
from pathlib import Path

import pytest

from hansa_more_worlds.reasoning_gym import PLAIN, REFUSED
from hansa_worlds import OptionError, make
from tests.support import foreign

FAMILIES = ["binary_matrix", "countdown", "n_queens", "puzzle24", "spiral_matrix"]


@pytest.fixture(autouse=True)
def package() -> None:
    foreign.use()


def played(options: dict[str, object], answer: str | None = None, index: int = 0) -> tuple:
    world = make("reasoning-gym", options)
    world.start(world.tasks("train")[index])
    seen = world.step(world.expert().text if answer is None else f"Thought: so.\nAction: {answer}")
    return seen, world.success


def test_an_answer_ends_the_episode_and_only_a_right_one_succeeds() -> None:
    for index in range(10):
        seen, success = played({}, index=index)
        assert (seen.text, seen.reward, seen.done, success) == ("Right.", 1.0, True, True)
    seen, success = played({}, "no idea")
    assert (seen.text, seen.done, success) == ("Wrong.", True, False)


def test_partial_credit_is_success_only_where_the_options_say_so() -> None:
    nearly = {"families": ["countdown"]}
    seen, success = played(nearly, "1 + 1")
    assert 0 < seen.reward < 1
    assert not success
    assert played({**nearly, "success": 0.05}, "1 + 1")[1]


def test_settings_of_a_family_reach_its_questions() -> None:
    world = make(
        "reasoning-gym",
        {"families": ["chain_sum"], "config": {"chain_sum": {"min_terms": 2, "max_terms": 2}}},
    )
    for task in world.tasks("test")[:5]:
        assert len(re.findall(r"\d+", world.start(task).text.splitlines()[-1])) == 2


def test_every_family_of_the_package_that_is_not_refused_knows_its_answers() -> None:
    import reasoning_gym

    known = set(reasoning_gym.factory.DATASETS)
    assert known >= REFUSED.keys() | PLAIN.keys()
    assert len(known) == 106, "README.md says so"
    slow = {"arc_agi", "rearc", "figlet_font", "group_anagrams"}  # a second for each question
    world = make("reasoning-gym", {"families": sorted(known - REFUSED.keys() - slow)})
    wrong = [task.id for task in world.tasks("test")[: len(known - REFUSED.keys() - slow)]
             if not world.solvable(task)]  # fmt: skip
    assert wrong in ([], ["tower_of_hanoi-0"]), "the longest way of all does not fit a line"


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_is_never_run(family: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for code in (
        f"open('{mark}','w')",
        f"[open('{mark}','w')]",
        f"__import__('os').mkdir('{mark}')",
    ):
        seen, success = played({"families": [family]}, code)
        assert (seen.reward, success) == (0.0, False)
    assert not mark.exists()


def test_no_power_is_computed_for_an_agent() -> None:
    for power in ("9**9**9**9**9", "9* *9**9**9"):
        assert played({"families": ["countdown"]}, power)[0].reward == 0


def test_no_other_family_evaluates_an_answer() -> None:
    import reasoning_gym

    evaluates = re.compile(r"\b(eval|exec|parse_expr|sympify)\((answer|user_answer|str\(answer)")
    found = set()
    for name, (kind, _) in reasoning_gym.factory.DATASETS.items():
        source = Path(sys.modules[kind.__module__].__file__).read_text()
        if evaluates.search(source):
            found.add(name)
    assert found == PLAIN.keys() | {name for name, why in REFUSED.items() if "as code" in why} | {
        "polynomial_multiplication"
    }


def test_questions_are_the_same_in_every_process() -> None:
    script = (
        "from hansa_worlds import make\n"
        "world = make('reasoning-gym', {})\n"
        "print([(world.start(t).text, world.expert()) for t in world.tasks('train')[:25]])\n"
    )
    assert foreign.says_the_same_in_every_process(script)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"families": "gcd"}, "options.families: got 'gcd', expected a list of distinct names"),
        ({"families": ["gcd", "gcd"]}, "options.families: got ['gcd', 'gcd'], expected a list"),
        ({"families": ["sums"]}, "options.families: got 'sums', expected some of ab, acre"),
        (
            {"families": ["simple_integration"]},
            "options.families: got 'simple_integration', which runs an answer as code, expected an",
        ),
        (
            {"families": ["gcd"], "config": {"lcm": {}}},
            "options.config: got 'lcm' in it, expected a mapping of families in options.families",
        ),
        (
            {"families": ["gcd"], "config": {"gcd": {"seed": 3}}},
            "options.config.gcd: got seed, expected some of",
        ),
        (
            {"families": ["gcd"], "config": {"gcd": {"min_numbers": -1}}},
            "options.config.gcd: got {'min_numbers': -1}, expected settings that fit (",
        ),
        ({"success": 0}, "options.success: got 0, expected 0.01 to 1"),
        ({"test": [0, 2000]}, "options.train: got [1000, 5000], expected seeds apart from"),
    ],
)
def test_a_bad_option_is_named_with_what_fits(options, sentence) -> None:
    with pytest.raises(OptionError) as refused:
        make("reasoning-gym", options)
    assert str(refused.value).startswith(sentence)
