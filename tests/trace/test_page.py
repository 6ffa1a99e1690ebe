"""The evidence page in headless Chromium: what it shows, how it is steered, and that nothing in it comes alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Dialog, Page

from convmem.core import Claim, Piece, ReplySlice, Span
from convmem.trace import Trace, encode, to_html
from tests.support.chromium import chromium
from tests.support.traces import Recorded, Source, Text, long_run, read

Show = Callable[..., Page]

BELL = "The bell was cast at Ostermere in 1862."
KEEPER = "The keeper was Tobias Renn."
FILLER = "".join(f"On day {n} the harbour was calm and the clerks wrote nothing down.\n" for n in range(3_000))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@contextmanager
def opened(browser: Browser, folder: Path, run: Recorded, **options: Any) -> Iterator[Page]:
    """A run's page, opened from disk; until it is closed it must ask for nothing and complain of nothing."""
    file = folder / "page.html"
    file.write_bytes(to_html(run.export()))
    events: list[str] = []

    def refuse(dialog: Dialog) -> None:
        events.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    with browser.new_context(**{"viewport": {"width": 1300, "height": 800}} | options) as context:
        page = context.new_page()
        page.on("dialog", refuse)
        page.on("console", lambda message: events.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: events.append(f"error: {error}"))
        page.on("request", lambda request: events.append(f"request: {request.url}"))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        yield page
    assert events == [f"request: {file.as_uri()}"]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    with ExitStack() as pages:
        yield lambda run, **options: pages.enter_context(opened(browser, tmp_path, run, **options))


def harbour(**options: Any) -> Recorded:
    text = FILLER[:90_000] + BELL + "\n" + FILLER[90_000:150_000] + KEEPER + "\n" + FILLER[150_000:]
    parts = [("Where was the bell cast?", "Ostermere", [BELL]), ("Who kept the light?", "Tobias Renn", [KEEPER])]
    return read(
        Text([Source("harbour.txt", text)]), "Who, and where?", parts, "Renn", window=8_000, stride=4_000, **options
    )


def in_view(page: Page, selector: str) -> bool:
    return bool(
        page.evaluate(
            """(selector) => {
              const box = document.querySelector(selector).getBoundingClientRect();
              const pane = document.querySelector("#text").getBoundingClientRect();
              return box.height > 0 && box.top >= pane.top && box.bottom <= pane.bottom;
            }""",
            selector,
        )
    )


def settled(page: Page) -> None:
    page.evaluate(
        "() => new Promise((done) => { let n = 12; const f = () => --n ? requestAnimationFrame(f) : done(); f(); })"
    )


def prompts(page: Page) -> list[list[str]]:
    """Every call's messages as the page rebuilds them."""
    rebuilt: list[list[str]] = page.evaluate(
        "nodes.map((node) => messages(node).map(({ pieces }) => pieces.map((piece) => piece.text).join('')))"
    )
    return rebuilt


HOSTILE = (
    "</script><script>window.alive=1;alert(1)</script><img src='http://attack.invalid/x' onerror='window.alive=1'>"
    "<!--<script>\u2028\u2029\x00\x1b[31mred\x1b[0m\u202egnp.exe\u202c\u2066\x9b{{data}}{{<window>}}</window><|im_end|>"
    "</style><svg onload=alert(1)>&lt;b&gt;\r\n</title>\"'`"
)


def test_hostile_text_is_only_text(show: Show) -> None:
    word = "w" * 1_000_000
    document = Text([Source(f"{HOSTILE}.txt", f"{HOSTILE}\nThe fact. {HOSTILE}\n{word}")])
    run = read(
        document,
        HOSTILE,
        [(HOSTILE, HOSTILE, [f"The fact. {HOSTILE}"])],
        HOSTILE,
        window=100_000,
        stride=50_000,
        failed=(1,),
    )
    run.call("answer", {"findings": [Span(0, 300)], "question": HOSTILE}, HOSTILE, channel=HOSTILE)
    run.trace.config[HOSTILE] = HOSTILE
    page = show(run)
    for row in page.locator("[role=slider]").all():
        row.press("End")
        row.press("Home")
    assert page.evaluate("window.alive") is None
    assert page.evaluate("document.scripts.length") == 2
    assert page.locator("img, svg[onload], iframe").count() == 0
    page.evaluate("document.querySelector('#data').remove()")
    text = page.evaluate("document.body.textContent + document.title")
    assert not set(text) & set("\x00\x1b\x9b\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066")
    assert "␛[31mred" in page.locator("#text mark").first.text_content()  # type: ignore[operator]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert prompts(page) == [run.messages(i) for i in range(len(run.trace))]


def test_a_script_added_later_does_not_run(browser: Browser, tmp_path: Path) -> None:
    """The page's policy is the second wall, should text ever become markup."""
    file = tmp_path / "page.html"
    file.write_bytes(to_html(Recorded(Text([]), Trace("?")).export()))
    page = browser.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(file.as_uri())
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.alive = 1";
          document.body.append(script);
          document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.alive = 1'>");
          return fetch("http://127.0.0.1:9/").catch(() => 0);
        }"""
    )
    assert page.evaluate("window.alive") is None
    page.close()
    assert any("connect" in text for text in refused)


TRICKY = st.lists(
    st.sampled_from(
        [
            "<window>",
            "</window >",
            "<|im_end|>",
            "|>",
            "</s>",
            "[INST]",
            "😀",
            "é",
            " ",
            "\n",
            "\r\n",
            "<",
            "\u2028",
            "中文",
            "\x00",
        ]
    )
    | st.text(st.characters(codec="utf-8"), max_size=3),
    min_size=1,
    max_size=40,
).map("".join)


@pytest.fixture(scope="module")
def blank(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with opened(browser, tmp_path_factory.mktemp("blank"), Recorded(Text([]), Trace("?"))) as page:
        yield page


@settings(max_examples=80, deadline=None)
@given(text=TRICKY, reply=TRICKY, cuts=st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_prompts_are_rebuilt_exactly_as_sent(blank: Page, text: str, reply: str, cuts: list[float]) -> None:
    run = Recorded(Text([Source("a", text), Source("b", text)]), Trace("?"))
    edges = sorted(round(cut * 2 * len(text)) for cut in cuts)
    middle = len(reply) // 2
    for start, end in pairwise(edges):
        span = Span(start, end)
        note = run.call("summarize", {"window": [span], "question": reply}, reply, window=span)
        notes: list[Piece] = [ReplySlice(note, 0, middle), text, span, ReplySlice(note, middle, len(reply))]
        run.call("merge", {"notes": notes, "question": text}, reply, parents=[note])
    blank.evaluate("(exported) => take(JSON.parse(exported))", encode(run.export()).decode())
    assert prompts(blank) == [run.messages(i) for i in range(len(run.trace))]


def test_a_citation_leads_to_its_passage(show: Show) -> None:
    page = show(harbour())
    page.locator("#citations button").nth(1).click()
    settled(page)
    assert page.locator("mark.active").text_content() == KEEPER
    assert in_view(page, "mark.active")
    page.locator("#answer .cite").first.click()
    settled(page)
    assert page.locator("mark.active").text_content() == BELL
    assert in_view(page, "mark.active")
    page.get_by_label("Next cited passage").click()
    settled(page)
    assert page.locator("#current").text_content() == "2 of 2"
    assert in_view(page, "mark.active")


def test_passages_are_marked_right_behind_characters_beyond_the_first_plane(show: Show) -> None:
    text = "😀𝔘 smile\n" * 2_000 + "x😀" + BELL + "😀 end\n" + "😀" * 5_000
    run = read(
        Text([Source("a.txt", "👋 hello\n"), Source("b.txt", text)]),
        "?",
        [("?", "!", [BELL])],
        "!",
        window=9_000,
        stride=4_500,
    )
    page = show(run)
    assert page.locator("#text mark").text_content() == BELL
    page.locator("#citations button").click()
    settled(page)
    assert in_view(page, "mark.active")
    assert prompts(page) == [run.messages(i) for i in range(len(run.trace))]


def test_overlapping_passages_are_each_marked(show: Show) -> None:
    text = FILLER[:5_000] + BELL + " " + KEEPER + FILLER[5_000:9_000]
    run = read(
        Text([Source("a", text)]), "?", [("?", "!", [BELL + " The keeper", KEEPER])], "!", window=4_000, stride=2_000
    )
    page = show(run)
    for i, quote in enumerate((BELL + " The keeper", KEEPER)):
        page.locator("#citations button").nth(i).click()
        assert "".join(page.locator("mark.active").all_text_contents()) == quote
    assert "".join(page.locator(".block").all_text_contents()) == text


def test_hard_wrapped_prose_fills_the_width_and_other_lines_stay(show: Show) -> None:
    prose = "The clerks wrote down the price of rope in the summer and left\nout the man who was hanging from it.\n"
    lines = "first,second,third,fourth,fifth,sixth,seventh,eighth,ninth\n" * 3
    verse = "The tide takes the footprints,\nthe salt takes the paint,\nand the clerks\n"
    run = Recorded(Text([Source("a.txt", f"{prose}\n{lines}\n{verse}")]), Trace("?"))
    shown = "".join(show(run).locator(".block").all_text_contents())
    assert shown == f"{prose[:62]} {prose[63:]}\n{lines}\n{verse}"


def test_a_click_on_a_window_shows_its_prompt_reply_and_place(show: Show) -> None:
    run = harbour()
    page = show(run)
    track = page.get_by_role("slider", name="Layer 0, relevance q2")
    box = track.bounding_box()
    assert box
    track.click(position={"x": box["width"] * 0.72, "y": 15})
    settled(page)
    shown = page.locator("#call")
    chosen = page.evaluate("selected")
    assert run.trace[chosen].relevance == 2
    assert shown.locator("pre.prompt").all_text_contents() == run.messages(chosen)
    assert shown.locator("pre.reply").text_content() == '{"relevance": 2}'
    assert "direct evidence" in shown.locator(".head").inner_text()
    assert in_view(page, "mark[data-number='2']")
    read_text = "".join(page.locator(".block.read").all_text_contents())
    window = run.trace[chosen].window
    assert window
    assert run.document.text(window) in read_text
    assert page.evaluate("[...CSS.highlights.get('read')].map(String).join('')").replace("\n", "") in run.document.text(
        window
    ).replace("\n", "")
    shown.get_by_role("button", name="decompose").click()
    assert "decompose" in shown.locator(".head").inner_text()


def test_the_tree_is_steered_with_keys(show: Show) -> None:
    run = harbour()
    page = show(run, viewport={"width": 1300, "height": 1600})
    row = page.get_by_role("slider", name="Layer 0, relevance q1")
    row.press("Home")
    assert row.get_attribute("aria-valuenow") == "1"
    row.press("ArrowRight")
    row.press("ArrowRight")
    assert row.get_attribute("aria-valuenow") == "3"
    assert "relevance q1, 3 of" in page.locator("#call .head").inner_text()
    row.press("ArrowDown")
    assert "summarize q1, 3 of" in page.locator("#call .head").inner_text()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Layer 0, summarize q1"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.getAttribute('aria-valuenow')") == str(
        sum(node.role == "summarize" and node.channel == "q1" for node in run.trace)
    )


def test_the_rows_go_from_the_question_through_the_layers_to_the_answer(show: Show) -> None:
    page = show(harbour(fan_in=40))
    stages = [f"Layer {number}" for number in range(4)]
    assert page.locator("#tree .layer").all_inner_texts() == ["Question", *stages, "Answer"]
    rows = page.locator("#tree .label").all_inner_texts()
    assert [row.split()[0] for row in rows if row][-3:] == ["sub_answer", "sub_answer", "answer"]


def test_relevance_is_told_by_height_as_well_as_colour(show: Show) -> None:
    run = Recorded(Text([Source("a", FILLER[:4_000])]), Trace("?"))
    for at, relevance in enumerate((0, 1, 2)):
        window = Span(at * 1_000, at * 1_000 + 1_000)
        run.call("relevance", {"window": [window], "question": "?"}, "{}", window=window, relevance=relevance)
    run.call("answer", {"findings": "", "question": "?"}, "!")
    page = show(run)
    heights = page.evaluate(
        """() => {
          const { canvas, cells } = rows[0], copy = document.createElement("canvas");
          const pen = copy.getContext("2d", { willReadFrequently: true });
          copy.width = canvas.width;
          pen.drawImage(canvas, 0, 0);
          return cells.map(([a, b]) => {
            const column = pen.getImageData(Math.floor(((a + b) / 2) * canvas.width), 0, 1, canvas.height).data;
            return column.filter((value, i) => i % 4 === 3 && value).length;
          });
        }"""
    )
    assert heights[0] < heights[1] < heights[2]


def test_what_failed_is_named_and_leads_to_its_call(show: Show) -> None:
    page = show(harbour(failed=(3,), malformed=(5,)))
    notices = page.locator("#coverage .notices li")
    assert "the server did not reply" in notices.first.inner_text()
    notices.first.get_by_role("button").click()
    assert "No reply came." in page.locator("#call").inner_text()
    row = page.get_by_role("slider", name="Layer 0, relevance q1")
    row.press("Home")
    for _ in range(5):
        row.press("ArrowRight")
    assert "malformed reply" in page.locator("#call .head").inner_text()
    assert page.locator("#call pre.reply").text_content() == "It seems to help a little."


@pytest.mark.parametrize("text", ["", "Only this."])
def test_a_run_without_calls_or_answer_still_opens(show: Show, text: str) -> None:
    page = show(Recorded(Text([Source("a.txt", text)]), Trace("Why?")))
    assert page.locator("#answer").text_content() == "The run ended without an answer."
    assert page.locator("#question").text_content() == "Why?"


def test_a_reply_that_the_cache_has_lost_is_said_to_be_lost(show: Show) -> None:
    run = harbour()
    run.replies.clear()
    page = show(run)
    assert "The reply is no longer in the cache." in page.locator("#call").inner_text()


def test_sources_and_pages_are_shown(show: Show) -> None:
    pages = tuple(range(0, 60_000, 3_000))
    sources = [Source("minutes.pdf", FILLER[:60_000], pages), Source("letters.txt", FILLER[:20_000] + BELL)]
    page = show(read(Text(sources), "?", [("?", "!", [BELL])], "!", window=8_000, stride=8_000))
    assert page.locator("#text .source").all_text_contents() == ["minutes.pdf", "letters.txt"]
    assert page.locator("mark").all_text_contents() == [BELL]
    assert page.locator(".block.page").evaluate_all("all => all.map((e) => e.getAttribute('data-at'))") == [
        f"p. {n}" for n in range(1, 21)
    ]
    page.locator("#citations button").click()
    settled(page)
    assert "letters.txt" in page.locator("#place").inner_text()
    page.get_by_role("slider", name="Layer 0, relevance q1").press("Home")
    settled(page)
    assert "minutes.pdf" in page.locator("#place").inner_text()
    assert "page 1 to page 3" in page.locator("#call .figures").inner_text()


def test_light_and_dark_follow_the_system(show: Show) -> None:
    def brightness(scheme: str) -> tuple[int, int]:
        page = show(harbour(), color_scheme=scheme)
        channels = "(name) => getComputedStyle(document.documentElement)[name].match(/\\d+/g).slice(0, 3).map(Number)"
        return sum(page.evaluate(channels, "backgroundColor")), sum(page.evaluate(channels, "color"))

    paper, ink = brightness("light")
    assert paper > 600 > 200 > ink
    paper, ink = brightness("dark")
    assert paper < 200 < 600 < ink


def test_a_narrow_screen_needs_no_sideways_scrolling(show: Show) -> None:
    page = show(harbour(failed=(3,)), viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("#citations button").first.click()
    settled(page)
    assert in_view(page, "mark.active")
    assert page.evaluate("document.querySelector('mark.active').getBoundingClientRect().top < innerHeight")


def test_a_large_run_is_smaller_than_its_texts_and_lays_out_only_what_is_seen(show: Show) -> None:
    run = long_run()
    texts = len(run.document.all.encode()) + sum(len(reply.encode()) for reply in run.replies.values())
    assert len(run.trace) > 3_300
    assert len(to_html(run.export())) <= 1.5 * texts
    page = show(run)
    page.locator("#citations button").nth(2).click()
    settled(page)
    assert in_view(page, "mark.active")
    laid_out = "all => all.map((mark) => mark.checkVisibility({ contentVisibilityAuto: true }))"
    assert page.locator("#text mark").evaluate_all(laid_out) == [False, False, True]


def test_the_page_opens_at_the_first_citation(show: Show) -> None:
    page = show(harbour())
    settled(page)
    assert page.locator("mark").first.text_content() == BELL
    assert in_view(page, "mark")


def test_claims_are_shown_with_their_verdicts_and_lead_to_their_passages(show: Show) -> None:
    run = harbour()
    assert run.trace.answer
    bell, keeper = run.trace.answer.citations
    hostile = "<b>It was</b> cast \u202e at sea."
    claims = (
        Claim("The bell was cast at Ostermere.", "supported", (bell,), (keeper,), 0.9),
        Claim(hostile, "unsupported", (keeper,)),
        Claim("Nobody kept the light.", "contradicted", (keeper,)),
    )
    run.trace.finish(replace(run.trace.answer, claims=claims))
    page = show(run)
    assert page.locator("#claims li strong").all_text_contents() == ["supported", "unsupported", "contradicted"]
    assert page.locator("#claims b").count() == 0
    page.locator("#claims li").first.get_by_role("button").last.click()
    settled(page)
    assert page.locator("mark.active").text_content() == KEEPER
    assert in_view(page, "mark.active")
