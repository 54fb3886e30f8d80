"""The page as text: figures, sizes, states, and nothing a stranger could smuggle in."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.api import bucket_keys
from hansa.api.status import EnvironmentStatus, Federation
from hansa.report import joining
from hansa.report.data import collect
from hansa.report.page import render
from hansa.report.reference import build_snippet, dump_spec
from tests.support import report_sample
from tests.support.report_sample import PREFIX, MemoryStore

_IMPLIED = {"td", "th", "tr"}
_VOID = {"meta", "br", "hr"}


class Outline(HTMLParser):
    """Reads a page strictly: unbalanced elements and unknown ones are errors."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: dict[str, int] = {}
        self.attributes: set[tuple[str, str]] = set()
        self.figures: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {(name, value or "") for name, value in attrs}
        attributes = dict(attrs)
        if attributes.get("data-figure") and attributes.get("data-value"):
            self.figures.setdefault(str(attributes["data-figure"]), str(attributes["data-value"]))
        if tag not in _VOID | _IMPLIED:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {(name, value or "") for name, value in attrs}

    def handle_endtag(self, tag: str) -> None:
        if tag not in _IMPLIED:
            assert self.open.pop() == tag


def read(page: str) -> Outline:
    outline = Outline()
    outline.feed(page)
    outline.close()
    assert outline.open == []
    return outline


def page_of(given: Federation, **options: Any) -> str:
    return render(collect(given, report_sample.fill(MemoryStore(), given), **options))


def section_of(page: str, name: str) -> str:
    begin = page.index(f'<h2 id="{name}"')
    return page[begin : page.index("</section>", begin)]


def embedded(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="hansa-data">(.*?)</script>', page)
    assert found
    document: dict[str, Any] = json.loads(found[1])
    return document


def assert_harmless(page: str) -> None:
    """No script, no handler, no address that a browser would fetch, and text that can be sent."""
    page.encode()
    outline = read(page)
    assert outline.tags.get("script") == 1
    assert not {"img", "iframe", "link", "object", "embed", "base", "form"} & set(outline.tags)
    for name, value in outline.attributes:
        assert not name.startswith("on")
        assert name != "src"
        assert name not in ("href", "xlink:href") or value.startswith("#")
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_the_figures_on_the_page_are_those_of_the_data() -> None:
    given = report_sample.federation(8)
    data = collect(given, report_sample.fill(MemoryStore(), given))
    outline = read(render(data))
    assert data.base and data.base.success and data.last and data.last.success
    assert float(outline.figures["success-base"]) == pytest.approx(data.base.success.value)
    assert float(outline.figures["success-last"]) == pytest.approx(data.last.success.value)
    assert outline.figures["rounds"] == "8"
    assert outline.figures["explored"] == "1920"


def test_the_embedded_json_has_every_round_of_every_environment() -> None:
    given = report_sample.federation(8)
    document = embedded(page_of(given))
    assert document["rounds"] == list(range(9))
    for entry in given.status.history:
        for name, ratio in entry.success.items():
            assert document["environments"][name]["success"][entry.round] == pytest.approx(ratio)
    assert document["environments"]["maze"]["explored"] == [None, *[48] * 8]
    assert document["environments"]["maze"]["seconds"]["send"][1:] == [0.3] * 8


def test_episodes_that_a_world_broke_are_told_where_there_are_some() -> None:
    given = report_sample.federation(2)
    data = collect(given, report_sample.fill(MemoryStore(), given))
    assert "were dropped" not in render(data)
    first = data.rounds[1]
    parts = {**first.parts, "maze": replace(first.parts["maze"], broken=7)}
    rounds = (data.rounds[0], replace(first, parts=parts), *data.rounds[2:])
    page = render(replace(data, rounds=rounds))
    assert "7 more were dropped: their worlds failed in them." in page
    assert embedded(page)["environments"]["maze"]["broken"][1] == 7


def test_what_joining_brings_is_told_where_own_updates_were_measured() -> None:
    given = report_sample.federation(2, 2)
    assert "Does joining pay?" not in page_of(given)
    first, second = report_sample.names(2)
    given.status.history[1].own.update({first: 0.9, second: 0.1})
    given.status.history[2].own.update({first: 0.0})
    section = section_of(page_of(given), "joining")
    shared = given.status.history[2].success[first]
    assert f"{shared * 100:.1f}" in section  # the newest round that has both
    assert f"+{shared * 100:.1f}" in section
    assert "10.0" in section


def test_what_joining_brought_is_told_where_silos_evolved_alone() -> None:
    given = report_sample.federation(2, 2)
    names = report_sample.names(2)
    brought, cost = "joining brought you +18.0 points (+4.4 to +30.7)", "joining cost you 9 points"
    given.status.environments[:] = [
        EnvironmentStatus(
            name=names[0],
            state="Updated",
            success="0.600",
            personal="0.680",
            serves="mix-50",
            alone="0.500",
            joined=brought,
        ),
        EnvironmentStatus(
            name=names[1], state="Updated", success="0.710", alone="0.800", joined=cost
        ),
    ]
    section = section_of(page_of(given), "joining")
    cells = re.findall(r"<t[hd]\b[^>]*>([^<]*)", section)
    percents = ["50.0\u202f%", "60.0\u202f%", "68.0\u202f%"]
    assert cells[5:10] == [names[0], *percents, brought]
    percents = ["80.0\u202f%", "71.0\u202f%", "71.0\u202f%"]  # it serves what is shared
    assert cells[10:15] == [names[1], *percents, cost]
    assert "own update" not in section


def test_what_each_silo_serves_is_told_where_they_chose() -> None:
    given = report_sample.federation(2, 2)
    assert "What each silo serves" not in page_of(given)
    names = report_sample.names(2)
    first = EnvironmentStatus(
        name=names[0], state="Updated", serves="finetuned-3", personal="0.937"
    )
    second = EnvironmentStatus(name=names[1], state="Updated")
    given.status.environments[:] = [first, second]
    section = section_of(page_of(given), "serves")
    shared = given.status.history[2].success[first.name]
    assert "evolved alone for 3 more rounds" in section and "93.7" in section
    assert f"{100 * (0.937 - shared):+.1f}".replace("-", "\u2212") in section
    assert second.name not in section


@pytest.mark.parametrize(
    "choice, words",
    [
        ("global", "the global adapter"),
        ("own", "its own last update"),
        ("alone", "what it evolved alone"),
        ("mix-75", "a mix with 75\u202f% of its own update"),
        ("finetuned-1", "evolved alone for 1 more round"),
        ("something-new", "something-new"),
    ],
)
def test_a_choice_in_words(choice: str, words: str) -> None:
    assert joining.describe_choice(choice) == words


def test_a_round_that_the_guard_rejected_says_why() -> None:
    given = report_sample.federation(3, 2)
    history = given.status.history
    reason = "mean success fell from 61.0% (round 1) to 30.0% (round 2)"
    history[2] = history[2].model_copy(update={"outcome": "rejected", "message": reason})
    assert f"rejected: {reason}" in page_of(given)


def test_the_rounds_show_the_step_that_each_took() -> None:
    given = report_sample.federation(2, 2)
    store = report_sample.fill(MemoryStore(), given)
    merged = report_sample.manifest(2, ["babyai", "maze"], server_step=2.4842)
    key = bucket_keys.global_folder(PREFIX, 2) + bucket_keys.MANIFEST
    store.objects[key] = merged.model_dump_json(by_alias=True).encode()
    assert ">2.48<" in render(collect(given, store))


def test_equal_data_gives_equal_bytes() -> None:
    given = report_sample.federation(5)
    assert page_of(given, now=report_sample.START) == page_of(given, now=report_sample.START)


@pytest.mark.parametrize(
    ("rounds", "environments", "limit"),
    [
        pytest.param(8, 5, 130_000, id="the demo"),
        pytest.param(50, 5, 300_000, id="fifty rounds of five worlds"),
        pytest.param(20, 100, 700_000, id="a hundred environments"),
    ],
)
def test_pages_stay_small(rounds: int, environments: int, limit: int) -> None:
    assert len(page_of(report_sample.federation(rounds, environments)).encode()) < limit


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param(report_sample.federation(1), "best", id="one round"),
        pytest.param(
            report_sample.federation(0, planned=8, phase="Running"),
            "start",
            id="only the base is known",
        ),
        pytest.param(
            report_sample.federation(0, planned=8, phase="Pending", finished=False),
            "No adapter has been evaluated yet",
            id="nothing has happened",
        ),
        pytest.param(
            report_sample.federation(5, failed=(3, 5), planned=8, phase="Failed"),
            "Round 5 failed (TooFewUpdates). </strong>2 of 5 environments answered",
            id="a failed federation says why at the top",
        ),
        pytest.param(
            report_sample.federation(2, 100),
            "gained least",
            id="a hundred environments are chosen from",
        ),
        pytest.param(
            report_sample.federation(3, 1), "Success on held-out tasks", id="one environment"
        ),
    ],
)
def test_every_state_of_a_federation_has_a_page(given: Federation, words: str) -> None:
    page = page_of(given)
    assert words in page
    assert_harmless(page)


def test_a_page_without_a_store_shows_the_curve_and_says_what_is_missing() -> None:
    page = render(collect(report_sample.federation(8), None))
    assert 'data-figure="success-last"' in page
    assert "No manifest of a finished round could be read." in page


def test_every_chart_is_named_and_has_its_figures_as_a_table() -> None:
    page = page_of(report_sample.federation(8))
    charts = re.findall(r'<svg role="img" aria-label="([^"]+)"', page)
    assert len(charts) >= 10
    for title in ("the curve", "experience", "training", "time"):
        assert f"Figures of {title}" in page


def test_a_removed_environment_stays_on_the_page() -> None:
    given = report_sample.federation(4)
    del given.spec.environments[4]
    assert "<small>removed</small>" in page_of(given)


def test_base_and_last_are_compared_over_the_environments_that_evaluated_both() -> None:
    document = report_sample.federation(4).to_json()
    first, last = document["status"]["history"][0], document["status"]["history"][-1]
    del first["success"]["maze"]
    last["success"] = {name: last["success"][name] for name in ("maze", "wordle")}
    changed = Federation.model_validate_json(json.dumps(document))
    page = page_of(changed)
    figures = embedded(page)["success"]
    assert figures["base"]["mean"] == pytest.approx(first["success"]["wordle"], abs=1e-6)
    assert figures["last"]["mean"] == pytest.approx(last["success"]["wordle"], abs=1e-6)
    assert "over wordle: " in page and "maze, " in page and "has not evaluated both" in page


def test_without_an_environment_in_common_nothing_is_compared() -> None:
    document = report_sample.federation(4).to_json()
    first, last = document["status"]["history"][0], document["status"]["history"][-1]
    first["success"] = {"maze": 0.2}
    last["success"] = {"wordle": 0.9}
    page = page_of(Federation.model_validate_json(json.dumps(document)))
    assert "not compared with the base: no environment has evaluated both" in page
    assert 'class="arrow"' not in page


HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--",
    "]]>",
    "</title></style><h1>",
    "\u202egnirts\u202c \u2066x",
    "&lt;b&gt;",
    "javascript:alert(1)",
    "x" * 200_000,
    "Z\u0300\u0301\u0302" * 500,
    "\ud83d",
    "\x00\x07",
)


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="writes markup into episodes, spec or status",
    result="stays text in the report",
)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_hostile_episodes_stay_text(text: str) -> None:
    given = report_sample.federation(2, 1)
    store = report_sample.fill(MemoryStore(), given)
    turns = [{"role": "user", "text": text}, {"role": "agent", "text": text}]
    for number in (1, 2):
        key = bucket_keys.experience_shard(PREFIX, "babyai", number)
        store.objects[key] = report_sample.shard([{"turns": turns, "task": text, "success": True}])
    page = render(collect(given, store))
    assert_harmless(page)
    assert "\u202e" not in page
    assert len(page) < 120_000


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=4), st.text(max_size=20))
def test_no_text_can_leave_its_element(texts: list[str], task: str) -> None:
    given = report_sample.federation(1, 1)
    store = report_sample.fill(MemoryStore(), given)
    turns = [{"role": "agent", "text": text} for text in texts]
    key = bucket_keys.experience_shard(PREFIX, "babyai", 1)
    store.objects[key] = report_sample.shard([{"turns": turns, "task": task, "success": False}])
    page = render(collect(given, store))
    assert_harmless(page)


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="writes markup into episodes, spec or status",
    result="stays text in the report",
)
def test_hostile_spec_and_status_stay_text() -> None:
    nasty = HOSTILE[0] + HOSTILE[1]
    options = [{"name": "maze", "world": "maze", "options": {nasty: nasty}}]
    given = report_sample.federation(1, 1, phase="Failed", environments=options, failed=())
    document = given.to_json()
    document["status"]["failed"]["message"] = nasty
    document["status"]["conditions"][0]["message"] = nasty
    document["status"]["environments"] = [{"name": "maze", "state": "Failed", "message": nasty}]
    document["status"]["history"][1]["success"] = {nasty: 0.5}
    changed = Federation.model_validate_json(json.dumps(document))
    assert_harmless(page_of(changed))


def test_secrets_in_the_spec_are_hidden_but_names_of_secrets_are_not() -> None:
    container = {"name": "client", "env": [{"name": "HF_TOKEN", "value": "hf_abc"}]}
    given = report_sample.federation(
        1,
        podTemplate={"spec": {"containers": [container]}},
        storage={
            "s3": {
                "endpoint": "http://me:pw@localhost:8333",
                "bucket": "hansa",
                "credentialsSecret": {"name": "hansa-s3"},
            }
        },
        environments=[{"name": "maze", "world": "maze", "options": {"apiKey": "k-123", "size": 6}}],
    )
    shown = dump_spec(collect(given, None))
    for secret in ("hf_abc", "pw@", "k-123"):
        assert secret not in shown
    for plain in ("hansa-s3", "HF_TOKEN", "size: 6", "localhost:8333"):
        assert plain in shown


def test_the_page_says_how_to_serve_the_run_and_how_to_leave_episodes_out() -> None:
    given = report_sample.federation(2, 2)
    store = report_sample.fill(MemoryStore(), given)
    here = render(collect(given, store, adapter="runs/my fed/adapter"))
    assert "<code>hansa serve &#x27;runs/my fed&#x27;</code>" in section_of(here, "adapter")
    assert "<code>hansa report --no-episodes</code>" in section_of(here, "episodes")
    assert f"<code>hansa serve {given.metadata.name}</code>" in page_of(given)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("builtin:tiny", 'from_pretrained(files("hansa_client") / "models" / "builtin" / "tiny")'),
        ("hf:org/name@main", 'from_pretrained("org/name", revision="main")'),
        ("hf:org/name", 'from_pretrained("org/name")'),
        ("path:/models/base", 'from_pretrained("/models/base")'),
        ("s3://models/base", "# base: your copy of s3://models/base"),
    ],
)
def test_the_lines_that_load_the_adapter_fit_the_base_and_compile(source: str, line: str) -> None:
    data = collect(report_sample.federation(1, model={"source": source}), None, adapter="out/a")
    text = build_snippet(data)
    assert line in text
    assert 'PeftModel.from_pretrained(base, "out/a")' in text
    assert len(text.splitlines()) <= 5
    compile(text, "snippet", "exec")
