"""The web page in headless Chromium, over a server of ours: it asks no other host, and nothing in it comes alive."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, Route, expect

from tests.document.files import pdf
from tests.serve.conftest import ANSWER, BOOK, QUESTION, reads
from tests.support.chromium import chromium
from tests.support.server import Json, Reply, ScriptedServer
from tests.support.serving import Serving

Show = Callable[..., Page]
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script></textarea>'
SOME_READ = re.compile(r" [1-9]\d* readings? of")
expect.set_options(timeout=30_000)
PHONE = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@contextmanager
def opened(browser: Browser, url: str, complaints: list[str], **options: Any) -> Iterator[Page]:
    """The page at ``url``, which must ask no other host; what else it complains of is added to ``complaints``."""

    def refuse(dialog: Dialog) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    host = url.split("#")[0]
    asked: list[str] = []
    with browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | options) as context:
        page = context.new_page()
        page.on("dialog", refuse)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        yield page
    assert asked and all(each.startswith((host, "data:", f"blob:{host}")) for each in asked)


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Opens the page of a server; at the end it must have complained of nothing."""
    complaints: list[str] = []
    with ExitStack() as pages:

        def start(server: Serving, path: str = "", **options: Any) -> Page:
            return pages.enter_context(opened(browser, f"{server.url}/{path}", complaints, **options))

        yield start
    assert complaints == []


@pytest.fixture
def gate() -> threading.Event:
    """Opens for the calls that `held` keeps waiting."""
    return threading.Event()


@pytest.fixture
def held(gate: threading.Event) -> Iterator[ScriptedServer]:
    """A model that answers ten calls, and the others when the gate opens."""
    calls = iter(range(10))

    def answer(request: Json) -> Reply:
        if next(calls, None) is None:
            assert gate.wait(60)
        return reads(request)

    with ScriptedServer(answer) as running:
        yield running
        gate.set()


def add(page: Page, text: str = BOOK, name: str = "book.txt") -> None:
    """Upload a document, and wait until it is chosen."""
    page.set_input_files("#files", [{"name": name, "mimeType": "text/plain", "buffer": text.encode()}])
    expect(page.locator(".book", has_text=name).locator("input")).to_be_checked()


def put(page: Page, question: str = QUESTION) -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")


def test_a_document_is_dropped_asked_and_its_citation_opened_in_its_place(serve, show):
    page = show(serve())
    add(page)
    page.fill("#question", QUESTION)
    expect(page.locator(".estimate").first).to_contain_text("tokens")
    page.press("#question", "Enter")
    expect(page.locator(".final")).to_have_text(ANSWER)
    expect(page.locator(".cost")).to_contain_text("Used")
    expect(page.locator(".cost")).to_contain_text("Expected")
    page.locator(".citation").first.click()
    expect(page.locator("#reader mark")).to_have_text(ANSWER)
    expect(page.locator("#reader mark")).to_be_in_viewport()
    expect(page.locator("#reader-place")).to_contain_text("book.txt, line 153")
    page.keyboard.press("Escape")
    expect(page.locator("#reader")).to_be_hidden()
    assert page.evaluate("document.activeElement.className") == "citation"


def test_files_that_are_dropped_make_one_document(serve, show):
    page = show(serve())
    page.wait_for_selector("#drop")
    page.evaluate(
        """() => {
            const data = new DataTransfer();
            for (const name of ["one.txt", "two.txt"]) data.items.add(new File([`The text of ${name}.`], name));
            window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
        }"""
    )
    expect(page.locator(".book")).to_contain_text("one.txt")
    expect(page.locator(".book")).to_have_count(1)


def test_what_is_read_is_seen_while_it_is_read_and_a_reload_loses_nothing(serve, show, held, gate):
    page = show(serve(held.url))
    add(page, BOOK * 3)
    put(page)
    expect(page.locator(".status")).to_contain_text("Reading")
    expect(page.locator(".status")).to_contain_text("calls")
    expect(page.locator(".map")).to_have_attribute("aria-label", SOME_READ)
    page.reload()
    expect(page.locator(".map")).to_have_attribute("aria-label", SOME_READ)
    expect(page.locator(".status")).to_contain_text("Reading")
    gate.set()
    expect(page.locator(".final")).to_have_text(ANSWER)
    page.reload()
    expect(page.locator(".final")).to_have_text(ANSWER)
    expect(page.locator("#question")).to_have_value(QUESTION)


def test_a_run_is_cancelled_and_goes_on(serve, show, held, gate):
    page = show(serve(held.url))
    add(page, BOOK * 3)
    put(page)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".status")).to_have_text("Cancelled")
    gate.set()
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".final")).to_have_text(ANSWER)
    page.reload()
    expect(page.locator(".final")).to_have_text(ANSWER)
    expect(page.locator(".status")).to_have_text("Answered")


def test_ways_of_reading_are_compared_side_by_side(serve, show):
    page = show(serve())
    add(page)
    page.locator("#reading summary").click()
    page.get_by_label("rag-bm25").check()
    page.get_by_label("At most so many tokens").fill("60000")
    put(page)
    expect(page.locator(".run")).to_have_count(2)
    expect(page.locator(".run .final")).to_have_text([ANSWER, ANSWER])
    assert page.url.count("run_") == 2
    page.goto(page.url.split("#")[0])
    page.locator("#earlier summary").click()
    page.locator("#earlier-runs a").first.click()
    expect(page.locator(".run .final")).to_have_text([ANSWER])


def test_six_hundred_windows(serve, show):
    server = serve()
    client = server.client()
    document = client.upload(book__txt=(BOOK * 3).encode()).ok["id"]
    settings = {"window": 50, "stride": 50, "one_call_tokens": 0}
    run = client.post(
        "/v1/runs", {"document": document, "question": QUESTION, "preset": "paper", "settings": settings}
    ).ok
    page = show(server, f"#{run['id']}")
    expect(page.locator(".final")).to_contain_text("Keeper77")
    assert client.get(f"/v1/runs/{run['id']}").ok["answer"]["coverage"]["windows"] >= 600
    expect(page.locator(".map")).to_have_attribute("aria-label", re.compile(r" ([6-9]\d\d|\d,\d{3}) readings"))
    page.locator(".map").click(position={"x": 5, "y": 5})
    expect(page.locator("#reader-place")).to_contain_text("book.txt, line")


def test_nothing_that_a_document_says_comes_alive(serve, show):
    page = show(serve())
    add(page, f"{HOSTILE} {BOOK}", "<img src=x onerror=alert(3)>.txt")
    put(page, f"{QUESTION} {HOSTILE}")
    expect(page.locator(".asked h2")).to_contain_text(HOSTILE)
    expect(page.locator(".final")).to_be_visible()
    page.locator(".map").click(position={"x": 1, "y": 1})
    expect(page.locator("#reader-text")).to_contain_text(HOSTILE)


def test_the_citations_of_a_chat_lead_to_their_places(serve, show):
    server = serve()
    message = server.client().chat(f"{BOOK}\n\n{QUESTION}").ok["choices"][0]["message"]
    page = show(server, message["annotations"][0]["url_citation"]["url"].removeprefix(f"{server.url}/"))
    expect(page.locator("#reader mark")).to_have_text(ANSWER)
    expect(page.locator("#reader-place")).to_contain_text("line 153")


def test_citations_are_marked_behind_characters_of_two_units(serve, show):
    page = show(serve())
    add(page, f"{'🏮' * 500}\n\n{BOOK}")
    put(page)
    page.locator(".citation").first.click()
    expect(page.locator("#reader mark")).to_have_text(ANSWER)


def test_a_printed_pages_lines_flow_and_its_citations_stay_exact(serve, show):
    printed = (
        "The keeper of lighthouse 77 was called\nKeeper77. It burned 777 litres of oil a\nnight.\n"
        "The mole was built later, by other hands,\nof other stone."
    )
    filler = [f"The keeper of lighthouse {n} was called Keeper{n}." for n in range(1, 77)]
    server = serve()
    document = server.client().upload_named(("log.pdf", pdf([*filler, printed]))).ok
    text = server.client().get(f"/v1/documents/{document['id']}/text").ok["text"]
    start = text.index("The keeper of lighthouse 77")
    end = text.index(" It burned 777")
    page = show(server, f"#document={document['id']}&source=log.pdf&start={start}&end={end}")
    expect(page.locator("#reader mark")).to_be_visible()
    assert page.locator("#reader mark").evaluate("(mark) => mark.textContent") == ANSWER
    shown = page.locator("#reader .text").last.evaluate("(text) => text.textContent")
    flowing = "The keeper of lighthouse 77 was called Keeper77. It burned 777 litres of oil a night."
    assert shown.strip() == f"{flowing}\nThe mole was built later, by other hands, of other stone."


def test_a_document_is_deleted_with_what_was_asked(serve, show):
    server = serve()
    page = show(server)
    add(page, "Nothing is in this one.", "old.txt")
    add(page)
    put(page)
    expect(page.locator(".final")).to_have_text(ANSWER)
    page.get_by_role("button", name="Delete book.txt").click()
    expect(page.locator(".final")).to_be_visible()
    page.get_by_role("button", name="Delete it with its answers? book.txt").click()
    expect(page.locator(".book")).to_have_count(1)
    expect(page.locator(".book input")).to_be_checked()
    expect(page.locator(".run")).to_have_count(0)
    assert "#" not in page.url
    assert [each["name"] for each in server.client().get("/v1/documents").ok["data"]] == ["old.txt"]
    assert server.client().get("/v1/runs").ok["data"] == []


def test_an_answer_is_deleted_and_the_others_stay(serve, show):
    server = serve()
    page = show(server)
    add(page)
    page.locator("#reading summary").click()
    page.get_by_label("rag-bm25").check()
    put(page)
    expect(page.locator(".run .final")).to_have_text([ANSWER, ANSWER])
    page.locator(".run").first.get_by_role("button", name="Delete").click()
    page.locator(".run").first.get_by_role("button", name="Delete this answer?").click()
    expect(page.locator(".run")).to_have_count(1)
    assert len(server.client().get("/v1/runs").ok["data"]) == 1
    page.reload()
    expect(page.locator(".run .final")).to_have_text([ANSWER])


def test_a_server_with_keys_asks_for_one(serve, show, browser, add_key):
    key = add_key("ada")
    server = serve()
    complaints: list[str] = []
    with opened(browser, f"{server.url}/", complaints) as page:
        page.fill("#key", "wrong")
        page.press("#key", "Enter")
        expect(page.locator("#trouble")).to_contain_text("key")
        page.fill("#key", key)
        page.press("#key", "Enter")
        add(page)
        put(page)
        expect(page.locator(".final")).to_have_text(ANSWER)
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save the evidence page").click()
        assert saved.value.path().read_bytes().startswith(b"<!doctype html>")
    assert all("401" in each for each in complaints)


def test_a_question_asked_during_an_upload_waits_for_it(serve, show):
    page = show(serve())
    add(page, "Nothing is in this one.", "old.txt")
    uploads: list[Route] = []
    page.route("**/v1/documents", lambda route: uploads.append(route), times=1)
    page.set_input_files("#files", [{"name": "book.txt", "mimeType": "text/plain", "buffer": BOOK.encode()}])
    expect(page.locator("#drop")).to_have_attribute("data-busy", "Reading book.txt …")
    put(page)
    expect(page.locator("#go")).to_be_disabled()
    uploads[0].continue_()
    expect(page.locator(".about")).to_have_text("book.txt")
    expect(page.locator(".final")).to_have_text(ANSWER)


def test_what_goes_wrong_is_said(serve, show):
    page = show(serve())
    page.wait_for_selector("#ask:not([hidden])")
    put(page)
    expect(page.locator("#trouble")).to_have_text("Add a document first.")


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide and light", "phone and dark"])
def test_it_is_accessible(serve, show, options):
    page = show(serve(), **options)
    add(page)
    put(page)
    expect(page.locator(".final")).to_be_visible()
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".citation").first.click()
    expect(page.locator("#reader mark")).to_be_visible()
    assert serious(page) == []


def serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]
