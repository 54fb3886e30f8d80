"""The report in a real browser: its figures, its width on a phone, its silence on the network."""

import html
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hansa.api.status import Federation
from hansa.compare import page as compare_page
from hansa.compare import table as compare_table
from hansa.report.data import collect
from hansa.report.page import render
from hansa.report.run_facts import ReportData
from tests.support import report_sample
from tests.support.comparison_tables import ENVIRONMENTS, built, make_result, make_run
from tests.support.loopback import QuietHandler

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
PHONE = 360

pytestmark = pytest.mark.skipif(
    not CHROMIUM and not os.environ.get("CI"), reason="no chromium, chromium-browser or chrome"
)

QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

# Runs inside the wrapper page, never in the report: the report's policy forbids scripts.
PROBE = """
<iframe id="page" style="border:0;width:WIDTHpx;height:900px"></iframe>
<pre id="answer"></pre>
<script>
  const frame = document.getElementById("page");
  frame.onload = () => {
    const page = frame.contentDocument, view = frame.contentWindow, root = page.documentElement;
    const seen = (element) => element.getClientRects().length > 0;
    const all = (what) => [...page.querySelectorAll(what)];
    const wide = all("main *").filter((element) =>
      seen(element) && element.getBoundingClientRect().right > root.clientWidth + 1
      && !element.closest(".scroll, pre, .chart"));
    document.getElementById("answer").textContent = JSON.stringify({
      width: root.clientWidth,
      scroll: Math.max(root.scrollWidth, page.body.scrollWidth),
      wide: wide.map((element) => element.outerHTML.slice(0, 80)),
      background: view.getComputedStyle(page.body).backgroundColor,
      fetched: view.performance.getEntriesByType("resource").map((entry) => entry.name),
      figures: all("[data-figure]").filter(seen).map((element) => ({...element.dataset,
        text: element.textContent})),
      curve: all("[data-series=mean] [data-value]").map((element) => ({...element.dataset,
        y: element.getBoundingClientRect().y})),
      episodes: all("[data-episode]").map((element) => ({...element.dataset,
        text: element.textContent})),
      data: JSON.parse(page.getElementById("hansa-data").textContent),
      tables: all(".scroll").filter(seen).map((box) => {
        const edge = box.getBoundingClientRect(), heads = [...box.querySelectorAll("thead th")];
        const inside = heads.filter((head) => head.getBoundingClientRect().right <= edge.right);
        box.scrollLeft = box.scrollWidth;
        return {inside: inside.map((head) => head.textContent), scrolled: box.scrollLeft,
          stays: heads[0].getBoundingClientRect().left - edge.left};
      }),
      covered: all(".chart").filter(seen).flatMap((chart) => {
        const texts = [...chart.querySelectorAll("text")].filter(seen);
        const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
        const curve = [...chart.querySelectorAll(".line")].flatMap((path) => {
          const to = path.getScreenCTM(), length = path.getTotalLength(), steps = 150;
          return [...Array(steps + 1).keys()].map((step) =>
            path.getPointAtLength(length * step / steps).matrixTransform(to));
        });
        const on = boxes.filter(([, box]) => curve.some((point) => point.x > box.left
          && point.x < box.right && point.y > box.top && point.y < box.bottom));
        const pairs = boxes.flatMap(([text, box], index) => boxes.slice(index + 1)
          .filter(([, other]) => box.left < other.right && other.left < box.right
            && box.top + 2 < other.bottom - 2 && other.top + 2 < box.bottom - 2)
          .map(([other]) => `${text} | ${other}`));
        return [...on.map(([text]) => text), ...pairs];
      }),
      texts: all(".overview text").filter(seen).map((text) => text.textContent),
      ran: view.ran === undefined ? "no" : "yes",
    });
  };
  frame.srcdoc = PAGE;
</script>
"""

Probe = Callable[..., dict[str, Any]]


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    """Opens a page in a frame of a given width and answers what a reader would meet there."""

    def open_page(page: str, width: int = 1100, dark: bool = False) -> dict[str, Any]:
        assert CHROMIUM, "CI must have Chromium: the report is read back in it"
        text = json.dumps(page).replace("<", "\\u003c")
        wrapper = tmp_path / "wrapper.html"
        wrapper.write_text(PROBE.replace("WIDTH", str(width)).replace("PAGE", text))
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        command = [CHROMIUM, *QUIET, scheme, profile, "--virtual-time-budget=5000", "--dump-dom"]
        done = subprocess.run(
            [*command, wrapper.as_uri()], capture_output=True, timeout=120, check=True
        )
        written = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout.decode(), re.DOTALL)
        assert written and written[1], "the page did not load"
        answer: dict[str, Any] = json.loads(html.unescape(written[1]))
        return answer

    return open_page


def collected(given: Federation) -> ReportData:
    return collect(
        given, report_sample.fill(report_sample.MemoryStore(), given), now=report_sample.START
    )


def comparison() -> compare_table.ComparisonTable:
    names = ("fed-se", "local-evolution", "success-weighted", "a-method-with-a-rather-long-name")
    runs = [make_run(name, 1, base="fed-se") for name in names]
    scores = [(name, 50, round_, "") for name in ENVIRONMENTS for round_ in (0, 2)]
    return built(*((run, make_result(run, *scores)) for run in runs))


def figure(answer: dict[str, Any], name: str, **more: str) -> dict[str, str]:
    wanted = {"figure": name, **more}
    matching = [one for one in answer["figures"] if wanted.items() <= one.items()]
    assert len(matching) == 1, matching
    shown: dict[str, str] = matching[0]
    return shown


def test_the_figures_a_reader_sees_are_those_of_the_data(probe: Probe) -> None:
    data = collected(report_sample.federation(8))
    answer = probe(render(data))
    for word, entry in (("base", data.base), ("last", data.last), ("best", data.best)):
        assert entry and entry.success
        shown = figure(answer, f"success-{word}")
        assert float(shown["value"]) == pytest.approx(entry.success.value, abs=1e-5)
        assert f"{entry.success.value * 100:.1f}" in shown["text"]
        for name, score in entry.scores.items():
            cell = figure(answer, word, environment=name)
            assert float(cell["value"]) == pytest.approx(score.ratio, abs=1e-5)
            assert f"{score.ratio * 100:.1f}" in cell["text"]
    assert figure(answer, "rounds")["text"] == "8"
    assert figure(answer, "phase")["text"] == "Succeeded"


def test_the_curve_is_drawn_where_its_figures_say(probe: Probe) -> None:
    data = collected(report_sample.federation(8))
    curve = probe(render(data))["curve"]
    means = [entry.success.value for entry in data.rounds if entry.success]
    assert [float(point["value"]) for point in curve] == pytest.approx(means, abs=1e-5)
    # 320 px are 100 %: the marks' distances on the screen are those of the figures.
    heights = [curve[0]["y"] - point["y"] for point in curve]
    assert heights == pytest.approx([(value - means[0]) * 320 for value in means], abs=0.3)


def test_the_embedded_figures_are_whole_after_loading(probe: Probe) -> None:
    given = report_sample.federation(8)
    figures = probe(render(collected(given)))["data"]
    for entry in given.status.history:
        for name, ratio in entry.success.items():
            assert figures["environments"][name]["success"][entry.round] == pytest.approx(ratio)


def test_first_and_last_episodes_stand_side_by_side(probe: Probe) -> None:
    episodes = probe(render(collected(report_sample.federation(8))))["episodes"]
    assert [one["episode"] for one in episodes] == ["first", "last"] * 5
    assert {(one["round"], one["success"]) for one in episodes} == {("1", "false"), ("8", "true")}
    assert "move left" in episodes[2]["text"]


def tangled() -> Federation:
    """Curves that cross each round, two that are nearly equal, and the best early on."""
    given = report_sample.federation(6)
    document = given.to_json()
    for entry in document["status"]["history"]:
        high, low = (0.9, 0.1) if entry["round"] % 2 else (0.1, 0.9)
        ratios = (high, low, 0.5, 0.502, 0.99 if entry["round"] == 1 else 0.497)
        entry["success"] = dict(zip(report_sample.WORLDS, ratios, strict=True))
    return Federation.model_validate_json(json.dumps(document))


@pytest.mark.parametrize("width", [PHONE, 768, 1100])
@pytest.mark.parametrize(
    "given",
    [
        tangled(),
        report_sample.federation(50),
        report_sample.federation(5, failed=(3,), phase="Failed"),
    ],
)
def test_no_label_covers_a_curve_or_another_label(
    probe: Probe, given: Federation, width: int
) -> None:
    answer = probe(render(collected(given)), width=width)
    assert any(text.startswith("start ") for text in answer["texts"])
    assert ("wordle" in answer["texts"]) is (width > 760)
    assert answer["covered"] == []


@pytest.mark.parametrize(
    ("given", "width"),
    [
        pytest.param(report_sample.federation(8), PHONE, id="the demo on a phone"),
        pytest.param(report_sample.federation(8), 320, id="the demo on the smallest phone"),
        pytest.param(report_sample.federation(8), 768, id="the demo on a tablet"),
        pytest.param(report_sample.federation(50), PHONE, id="fifty rounds"),
        pytest.param(report_sample.federation(12, 100), PHONE, id="a hundred environments"),
        pytest.param(
            report_sample.federation(5, failed=(3, 5), phase="Failed"), PHONE, id="a failed one"
        ),
        pytest.param(
            report_sample.federation(0, phase="Pending", finished=False), PHONE, id="a new one"
        ),
    ],
)
def test_nothing_is_wider_than_the_screen(probe: Probe, given: Federation, width: int) -> None:
    page = render(collected(given)).replace("<details>", "<details open>")
    answer = probe(page, width=width)
    assert answer["scroll"] <= answer["width"] <= width
    assert answer["wide"] == []


@pytest.mark.parametrize("width", [320, 768])
def test_kinds_of_tasks_fit_the_screen(probe: Probe, width: int) -> None:
    given = report_sample.federation(20)
    store = report_sample.write_kinds(report_sample.fill(report_sample.MemoryStore(), given), given)
    page = render(collect(given, store)).replace("<details>", "<details open>")
    assert 'id="kinds"' in page
    answer = probe(page, width=width)
    assert answer["scroll"] <= answer["width"] <= width
    assert answer["wide"] == []


@pytest.mark.parametrize("width", [PHONE, 400, 768])
def test_a_comparison_fits_a_narrow_screen(probe: Probe, width: int) -> None:
    page = compare_page.render(comparison()).replace("<details>", "<details open>")
    answer = probe(page, width=width)
    assert answer["scroll"] <= answer["width"] <= width
    assert answer["wide"] == []


def test_a_phone_shows_methods_and_macro_and_scrolls_to_the_worlds(probe: Probe) -> None:
    first, *_ = probe(compare_page.render(comparison()), width=PHONE)["tables"]
    assert first["inside"][:2] == ["method", "macro"]
    assert first["scrolled"] > 0 and "wordle" not in first["inside"]
    assert first["stays"] == pytest.approx(1), "the method is not beside its figures"


def test_long_words_do_not_widen_a_phones_page(probe: Probe) -> None:
    given = report_sample.federation(1, 1)
    store = report_sample.fill(report_sample.MemoryStore(), given)
    for key in [key for key in store.objects if "experience" in key]:
        turns = [{"role": "agent", "text": "x" * 5000}, {"role": "user", "text": "\u0650" * 5000}]
        store.objects[key] = report_sample.shard([{"turns": turns, "task": "y" * 500}])
    answer = probe(render(collect(given, store, adapter="/z" * 300)), width=PHONE)
    assert answer["scroll"] <= answer["width"]
    assert answer["wide"] == []


def test_dark_mode_is_dark_and_light_mode_light(probe: Probe) -> None:
    page = render(collected(report_sample.federation(2)))
    brightness = [
        sum(map(int, re.findall(r"\d+", probe(page, dark=dark)["background"])[:3]))
        for dark in (False, True)
    ]
    assert brightness[0] > 600
    assert brightness[1] < 150


@pytest.fixture
def visits() -> Iterator[tuple[str, list[str]]]:
    """A server that remembers who came: (its address, paths asked for)."""
    asked: list[str] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()


def test_the_page_names_nothing_to_fetch(probe: Probe) -> None:
    page = render(collected(report_sample.federation(8)))
    assert probe(page)["fetched"] == []
    addresses = re.findall(r'(?:src|href)="([^"]*)"|url\(([^)]*)\)', page)
    assert {first or second for first, second in addresses if not first.startswith("#")} == set()


def test_even_a_hole_in_the_escaping_could_neither_run_nor_fetch(
    probe: Probe, visits: tuple[str, list[str]]
) -> None:
    address, asked = visits
    smuggled = f'<script>window.ran = 1</script><img src="{address}x.png"></main>'
    holed = render(collected(report_sample.federation(2))).replace("</main>", smuggled)
    assert probe(holed)["ran"] == "no"
    assert asked == []
    # Without the policy both would happen, so the two lines above do test something.
    open_to_all = holed.replace("Content-Security-Policy", "x-no-policy")
    assert probe(open_to_all)["ran"] == "yes"
    assert asked == ["/x.png"]
