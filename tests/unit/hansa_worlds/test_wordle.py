"""The rules of the wordle world, one sentence each."""

import random

import pytest

from hansa_worlds import OptionError, Task, make
from hansa_worlds.wordle import lists
from hansa_worlds.wordle.lists import WORDS
from hansa_worlds.wordle.search import choose, explain, filter_consistent, mark_guess
from hansa_worlds.wordle.world import Wordle


def start(word, opening="", options=None):
    """A game with this secret word and what was read first."""
    world = Wordle({"prompt": "none", **(options or {})})
    return world, world.start(Task("x", "test", (word, opening))).text


@pytest.mark.parametrize(
    ("guess", "secret", "marks"),
    [
        ("crane", "crane", "g g g g g"),
        ("crane", "ghost", "b b b b b"),
        ("stone", "notes", "y y y y y"),
        ("eerie", "crane", "b b y b g"),
        ("apple", "piano", "y y b b b"),
    ],
)
def test_feedback(guess, secret, marks):
    assert mark_guess(guess, secret) == marks


def test_there_are_forty_words_of_five_letters():
    assert len(set(WORDS)) == 40
    assert {len(word) for word in WORDS} == {5}


def test_the_prompt_lists_the_words_and_the_brief_one_does_not():
    world = Wordle({})
    text = world.start(world.tasks("test")[0]).text
    assert " ".join(WORDS) in text
    brief = Wordle({"prompt": "brief"}).start(world.tasks("test")[0]).text
    assert brief == "Guess the word in 6 tries.\nLet's start Wordle!"


def test_an_unknown_word_costs_a_try():
    world, _ = start("crane")
    for _ in range(5):
        assert world.step("xxxxx").text == "invalid word"
    assert world.step("xxxxx").done
    assert not world.success


def test_the_sixth_guess_may_win():
    world, _ = start("crane")
    for word in WORDS[:5]:
        assert not world.step(word).done
    seen = world.step("crane")
    assert (seen.text, seen.reward, seen.done) == ("g g g g g", 1.0, True)


def test_letters_may_be_spaced_as_in_lmrl_gym():
    world, _ = start("crane")
    assert world.step("c r a n e").reward == 1.0


def test_an_opening_costs_a_try_and_shows_its_marks():
    world, text = start("crane", "ocean", {"opening": True})
    assert text == "The first guess was ocean: b y y y y"
    for _ in range(4):
        assert not world.step("zebra").done
    assert world.step("zebra").done


def secrets(options, split):
    return {task.payload[0] for task in Wordle(options).tasks(split)}


@pytest.mark.parametrize("options", [{}, {"opening": True}, {"list": "common"}], ids=str)
def test_secrets_of_the_splits_are_apart(options):
    parts = [secrets(options, split) for split in ("train", "validation", "test")]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(Wordle(options).words)


def test_pairs_share_the_secrets_and_keep_the_openings_apart():
    pairs = {"opening": True, "split": "pairs"}
    assert secrets(pairs, "train") == secrets(pairs, "test") == set(WORDS)
    world = Wordle(pairs)
    counts = [len(world.tasks(split)) for split in ("train", "validation", "test")]
    assert counts == [920, 240, 400]
    assert sum(counts) == 40 * 39


def test_greed_takes_any_word_that_fits():
    world, _ = start("crane")
    world.step("ocean")
    fitting = filter_consistent(WORDS, (("ocean", "b y y y y"),))
    draw = random.Random(1)
    assert {world.greedy(draw) for _ in range(99)} == set(fitting)
    assert "crane" in fitting


def test_the_expert_says_what_the_answers_have_told():
    world, _ = start("grape")
    assert world.expert().thought == "Nothing is known yet, so I begin with any word."
    world.step("crane")
    move = world.expert()
    assert move.thought == (
        "I know that place 2 is r; place 3 is a; place 5 is e; it has no c, n, "
        f"and {move.action} fits."
    )
    assert mark_guess("crane", move.action) == "b g g b g"


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ((), ""),
        ((("ghost", "b b b b b"),), "it has no g, h, o, s, t"),
        ((("crane", "y b b b b"), ("cloud", "g b b b b")), "place 1 is c; "),
        ((("eerie", "b b y b g"),), "place 5 is e; it has r; it has no i"),
    ],
)
def test_what_is_known_is_said_in_words(history, expected):
    assert explain(history).startswith(expected)


def test_the_experts_openings_differ_from_task_to_task():
    world = Wordle({})
    first = set()
    for task in world.tasks("train"):
        world.start(task)
        first.add(world.expert().action)
    assert len(first) > 10


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"opening": True},
        {"opening": True, "split": "pairs"},
        {"words": ["crane", "crate", "grape", "brave"]},
        pytest.param({"list": "common"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_expert_solves_every_task(options):
    world = make("wordle", options)
    for split in ("train", "validation", "test"):
        for task in world.tasks(split):
            seen = world.start(task)
            while not seen.done:
                seen = world.step(world.expert().text)
            assert world.success, task.id


def test_where_guessing_one_by_one_would_be_too_late_the_expert_tells_words_apart():
    alike = ("fight", "light", "might", "right")
    words = (*alike, "flame", "ocean")
    assert choose(alike, words, 4) == "fight"
    assert choose(alike, words, 2) == "flame"


def test_asking_for_a_longer_list_does_not_make_steps_dearer():
    world, _ = start("crane", options={"list": "common"})
    world.step("ocean")
    assert world._history == (("ocean", "b y y y y"),)  # words are looked through when asked for


class TestWordLists:
    def test_the_common_list_holds_the_forty(self):
        words = lists.load_common()
        assert len(words) >= 500
        assert set(WORDS) < set(words)
        assert list(words) == sorted(set(words))

    def test_a_file_gives_its_words_in_its_order(self, tmp_path):
        path = tmp_path / "words.txt"
        path.write_text("zebra\n\n crane \nbread\r\nocean")
        assert Wordle({"file": str(path)}).words == ("zebra", "crane", "bread", "ocean")

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            ("crane\ncra\n", "got 'cra' in line 2, expected a word of 5 letters a to z"),
            ("crane\nCRATE\n", "got 'CRATE' in line 2, expected a word of 5 letters a to z"),
            ("crane\nbread\ncrane\n", "got 'crane' in lines 1 and 3, expected each word once"),
            ("crane\n", "got 1 words, expected 4 to 2000"),
            ("", "got 0 words, expected 4 to 2000"),
            (b"\xff\xfe\x00", "(no UTF-8 text), expected a file with one word of 5 letters"),
        ],
    )
    def test_a_bad_file_is_named_with_its_line(self, content, sentence, tmp_path):
        path = tmp_path / "words.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(OptionError) as caught:
            Wordle({"file": str(path)})
        assert str(caught.value).startswith("options.file: got ")
        assert sentence in str(caught.value)

    @pytest.mark.parametrize("path", ["/nowhere/words.txt", "/", "", "a\0b"])
    def test_a_file_that_cannot_be_read_is_named(self, path):
        with pytest.raises(OptionError, match=r"^options\.file: got .*, expected a file with one"):
            Wordle({"file": path})

    def test_there_are_not_more_words_than_a_prompt_may_hold(self, tmp_path):
        letters = "abcdefghijklm"
        words = [f"{a}{b}{c}{d}z" for a in letters for b in letters for c in letters for d in "ab"]
        with pytest.raises(OptionError, match=r"options\.words: got 4394, expected at most 2000"):
            Wordle({"words": words})
        (tmp_path / "many").write_text("\n".join(words))
        with pytest.raises(OptionError, match=r"options\.file: got 4394 words, expected 4 to 2000"):
            Wordle({"file": str(tmp_path / "many")})
