"""What a reader can rely on: headings, captions, colours, plurals, and settings that were used."""

import itertools
import json
import re
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.bucket_documents import Counts, Refusal
from hansa.api.status import Federation, RoundSettings
from hansa.report.data import collect
from hansa.report.page import render
from hansa.report.redact import redact
from tests.support import report_sample
from tests.support.report_sample import PREFIX, MemoryStore

STATES = [
    pytest.param(report_sample.federation(8), id="a finished run"),
    pytest.param(report_sample.federation(1, 1), id="one round of one environment"),
    pytest.param(report_sample.federation(2, 100), id="a hundred environments"),
    pytest.param(
        report_sample.federation(0, planned=8, phase="Running"), id="only the base is known"
    ),
    pytest.param(report_sample.federation(5, failed=(3, 5), phase="Failed"), id="a failed one"),
    pytest.param(report_sample.federation(0, phase="Pending", finished=False), id="a new one"),
]


def page_of(given: Federation) -> str:
    store = report_sample.fill(MemoryStore(), given)
    if given.status.history and given.status.phase == "Succeeded":
        report_sample.write_inputs(store, given)
    return render(collect(given, store))


def text_of(page: str) -> str:
    """What is read, without marks and style."""
    body = re.sub(r"<(style|script|pre).*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def changed_to(given: Federation, first: float, last: float) -> Federation:
    """The same federation, each environment of which went from one ratio to another."""
    for entry, ratio in zip(given.status.history, (first, last), strict=True):
        entry.success.update(dict.fromkeys(entry.success, ratio))
    return given


@pytest.mark.parametrize(
    ("first", "last", "colours"),
    [
        pytest.param(0.40, 0.46, set(), id="a gain whose interval includes zero"),
        pytest.param(0.46, 0.40, set(), id="a loss whose interval includes zero"),
        pytest.param(0.40, 0.40, set(), id="no change"),
        pytest.param(0.10, 0.90, {"up"}, id="a gain whose interval excludes zero"),
        pytest.param(0.90, 0.10, {"down"}, id="a loss whose interval excludes zero"),
    ],
)
def test_only_a_change_whose_interval_excludes_zero_is_coloured(
    first: float, last: float, colours: set[str]
) -> None:
    page = page_of(changed_to(report_sample.federation(1, 2), first, last))
    assert set(re.findall(r'class="(up|down)"', page)) == colours
    assert ("no change is shown" in page) is not bool(colours)


@pytest.mark.parametrize("given", STATES)
def test_headings_are_in_order_and_no_level_is_skipped(given: Federation) -> None:
    levels = [int(level) for level in re.findall(r"<h([1-6])", page_of(given))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


@pytest.mark.parametrize("given", STATES)
def test_the_table_of_contents_leads_to_every_section(given: Federation) -> None:
    page = page_of(given)
    contents = re.search(r"<nav.*?</nav>", page, flags=re.DOTALL)
    assert contents
    linked = re.findall(r'href="#([^"]+)"', contents[0])
    assert linked == re.findall(r'<h2 id="([^"]+)"', page)
    assert page.count("<h2") == len(linked) > 0


@pytest.mark.parametrize("given", STATES)
def test_every_chart_and_every_table_has_a_caption(given: Federation) -> None:
    page = page_of(given)
    for name, caption in (("figure", "figcaption"), ("table", "caption")):
        for shown in re.findall(rf"<{name}[ >].*?</{name}>", page, flags=re.DOTALL):
            text = re.search(rf"<{caption}>(.*?)</{caption}>", shown, flags=re.DOTALL)
            assert text and re.sub(r"<[^>]+>", "", text[1]).strip(), shown[:200]
    assert page.count('<svg role="img"') <= page.count("<figure")


@pytest.mark.parametrize("given", STATES)
def test_one_thing_is_not_spoken_of_as_several(given: Federation) -> None:
    several = (
        r"(?<![\d.,\u202f])1\s(?:more\s)?(?:rounds|environments|episodes|worlds|turns|tasks)\b"
    )
    assert re.findall(several, text_of(page_of(given))) == []


def with_manifests(*kinds: str) -> tuple[Federation, MemoryStore]:
    """Two rounds of three environments, of which maze contributes as a kind says, by round."""
    given = report_sample.federation(2, 3)
    store = report_sample.fill(MemoryStore(), given)
    for round_, kind in enumerate(kinds, start=1):
        members = report_sample.names(3) if kind == "merged" else ["babyai", "textcraft"]
        refused = [Refusal(environment="maze", reason="NormTooLarge")] if kind == "refused" else []
        made = report_sample.manifest(round_, members, refused=refused)
        folder = bucket_keys.global_folder(PREFIX, round_)
        store.objects[folder + bucket_keys.MANIFEST] = made.model_dump_json(by_alias=True).encode()
        won = Counts(explored=48, succeeded=0 if kind == "failing" else 9)
        if kind not in ("merged", "silent"):
            folder = bucket_keys.update_folder(PREFIX, "maze", round_)
            store.objects[folder + bucket_keys.MANIFEST] = report_sample.update(
                "maze", round_, counts=won
            )
    return given, store


@pytest.mark.parametrize(
    ("kinds", "sentence"),
    [
        pytest.param(("silent", "silent"), "maze sent no update.", id="no update"),
        pytest.param(
            ("failing", "silent"),
            "No update of maze was merged: none of its 48 explored episodes succeeded.",
            id="no successful episode",
        ),
        pytest.param(
            ("refused", "silent"),
            "No update of maze was merged: the gate refused it (NormTooLarge).",
            id="refused in each round",
        ),
        pytest.param(("other", "other"), "No update of maze was merged.", id="never a member"),
        pytest.param(("silent", "merged"), "", id="a member once"),
    ],
)
def test_who_contributed_nothing_is_said_in_a_sentence(
    kinds: tuple[str, str], sentence: str
) -> None:
    given, store = with_manifests(*kinds)
    page = text_of(render(collect(given, store)))
    assert sentence in page
    assert ("contributed nothing" in page) is bool(sentence)
    assert "babyai sent no update" not in page


def test_a_member_without_any_success_of_its_own_is_named() -> None:
    given = report_sample.federation(1, 2)
    store = report_sample.fill(MemoryStore(), given)
    none = {"counts": Counts(explored=48, kept=24).to_json()}
    parts = {"babyai": report_sample.part(0, 1), "maze": none}
    made = report_sample.manifest(1, ["babyai", "maze"], updates=parts)
    folder = bucket_keys.global_folder(PREFIX, 1)
    store.objects[folder + bucket_keys.MANIFEST] = made.model_dump_json(by_alias=True).encode()
    page = text_of(render(collect(given, store)))
    assert "None of the 48 episodes that maze explored succeeded." in page
    assert "demonstrations alone" not in page, "a learner may learn from failures, too"


def settings_of(given: Federation, changed: dict[int, dict[str, Any]]) -> str:
    store = report_sample.write_inputs(report_sample.fill(MemoryStore(), given), given, changed)
    page = render(collect(given, store))
    begin = page.index('<h2 id="settings"')
    return text_of(page[begin : page.index("</section>", begin)])


def test_settings_are_those_that_the_rounds_used_and_not_the_present_spec() -> None:
    given = report_sample.federation(4, 2, training={"learningRate": 0.5})
    shown = settings_of(given, {n: {"training.learningRate": 0.25} for n in (1, 2, 3, 4)})
    assert "training.learningRate 0.25" in shown
    assert "No setting changed between rounds 1 and 4" in shown
    assert "training.learningRate 0.25 0.5 no round yet" in shown


def test_a_setting_that_changed_is_shown_with_the_round_since_which() -> None:
    early, late = {"training.epochs": 2}, {"training.epochs": 3, "aggregation.serverStep": 2.0}
    shown = settings_of(report_sample.federation(4, 2), {1: early, 2: early, 3: late, 4: late})
    assert "2 settings changed between rounds 1 and 4" in shown
    assert "training.epochs 2 3 round 3" in shown
    assert "aggregation.serverStep 1.0 2.0 round 3" in shown


def test_an_option_of_one_world_that_changed_is_shown() -> None:
    shown = settings_of(report_sample.federation(2, 2), {2: {"options.size": 9}})
    assert "maze: options.size 6 9 round 2" in shown


def test_without_manifests_no_setting_is_claimed() -> None:
    page = render(collect(report_sample.federation(2), None))
    assert "No manifest says what the rounds used" in page


def test_secrets_in_options_that_a_round_used_are_hidden() -> None:
    given = report_sample.federation(1, 1)
    shown = settings_of(given, {1: {"options.apiKey": "k-123"}})
    assert "k-123" not in shown
    assert "babyai: options.apiKey ***" in shown


def test_no_setting_of_a_round_is_taken_for_a_secret() -> None:
    given = RoundSettings().to_json()
    assert redact(given) == given
    shown = settings_of(report_sample.federation(2, 2), {2: {"training.batchTokens": 9000}})
    assert "training.batchTokens 8192 9000 round 2" in shown


def test_a_setting_that_changed_twice_is_one_setting() -> None:
    numbers = {n: {"training.epochs": n} for n in (1, 2, 3)}
    shown = settings_of(report_sample.federation(3, 2), numbers)
    assert "1 setting changed between rounds 1 and 3" in shown


def test_tokens_that_could_be_secrets_are_hidden() -> None:
    given = {"tokens": "hf_abc", "api_token": 7, "tokenizer": "x"}
    assert redact(given) == {"tokens": "***", "api_token": "***", "tokenizer": "x"}


def test_a_temperature_is_dated_by_the_round_that_sampled_with_it() -> None:
    """Round 3 evaluates the adapter of round 2, and so on."""
    given = report_sample.federation(4, 2)
    store = report_sample.fill(MemoryStore(), given, evaluations=True)
    report_sample.write_inputs(store, given, {})
    for name in ("babyai", "maze"):
        for number, temperature in ((0, 1.0), (1, 1.0), (2, 0.5), (3, 0.5), (4, 0.5)):
            key = bucket_keys.evaluation(PREFIX, name, number)
            document = json.loads(store.objects[key]) | {"temperature": temperature}
            store.objects[key] = json.dumps(document).encode()
    page = text_of(render(collect(given, store)))
    assert "evaluation.temperature 1.0 0.5 round 3" in page


@pytest.mark.parametrize(
    ("rounds", "sentence"),
    [
        ({}, "with success; those are kept for training"),
        ({1: "none", 2: "none"}, "with success; all of them are kept for training"),
        ({2: "none"}, "with success; some rounds kept those for training, others all"),
    ],
)
def test_what_is_kept_follows_the_filter_that_the_rounds_used(
    rounds: dict[int, str], sentence: str
) -> None:
    given = report_sample.federation(2, 2, experience={"filter": "success" if rounds else "none"})
    store = report_sample.fill(MemoryStore(), given)
    changed = {number: {"experience.filter": one} for number, one in rounds.items()}
    report_sample.write_inputs(store, given, changed)
    assert sentence in text_of(render(collect(given, store)))


def test_how_it_was_sampled_is_what_the_evaluations_say() -> None:
    given = report_sample.federation(2, 2, evaluation={"tasks": 100, "temperature": 0.0})
    store = report_sample.fill(MemoryStore(), given, evaluations=True)  # they say temperature 1
    page = render(collect(given, store))
    assert "sampled at temperature 1" in page
    assert "played greedily" not in page
