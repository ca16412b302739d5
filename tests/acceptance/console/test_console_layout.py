"""The shape of pages in a real browser: cards, the empty state, folds, axes, type, colours."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.peers.console import Console, ask, cookie_of
from support.peers.joined import asked_to_join, joined
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import Api, together

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.acceptance

SECTIONS = ("manifest", "updates", "secrets", "workloads", "history", "recovery", "keys")
WITH_TABLES = ("trust", "secrets", "workloads", "workloads?show=refused", "keys", "manifest")

# Cells of tables that are not wholly inside of the window.
CUT = """() => [...document.querySelectorAll("main td, main tbody th")].filter((each) => {
    const box = each.getBoundingClientRect();
    return box.width && (box.left < 0 || box.right > innerWidth || box.width < 40);
}).map((each) => each.textContent)"""

# Elements with a green that states a proof or a success. Additions in differences have their own.
GREEN = """(greens) => [...document.querySelectorAll("body *")].filter((each) => {
    const style = getComputedStyle(each);
    const edges = [style.borderTopColor, style.borderLeftColor];
    return [style.color, style.backgroundColor, ...edges].some((one) => greens.includes(one));
}).map((each) => each.outerHTML.slice(0, 80))"""
GREENS = [
    *("rgb(29, 111, 66)", "rgb(232, 246, 238)", "rgb(47, 143, 91)", "rgb(35, 120, 74)"),
    *("rgb(138, 220, 176)", "rgb(18, 48, 31)", "rgb(77, 187, 127)"),
]


def to(page: "Page", path: str) -> None:
    answer = page.goto(f"{page.url.split('/d/')[0]}/d/prod/{path}")
    assert answer is not None
    assert answer.status == 200, page.inner_text("main")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A coordinator with a workload, a refusal, and an earlier manifest."""
    with Server(tmp_path_factory.mktemp("busy") / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together(UpdateThreshold=1)).status == 200
        with server.client(user("alice")) as alice:
            second = together(word="another", UpdateThreshold=1)
            assert Api(2).update(alice, second).status == 200
        joined(server, "app")
        assert asked_to_join(server, "missing").answer is None
        with server.client(user("alice")) as alice:  # an activation is recorded after its answer
            while not alice.get("/api/v2/activations").data["activations"]:
                pass
        yield server


def test_a_narrow_window_has_cards_in_place_of_cut_columns(
    busy: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    page = opened(consoles(busy, "alice"), viewport={"width": 390, "height": 844})
    for path in WITH_TABLES:
        to(page, path)
        assert page.locator("main td").count() > 0, page.inner_text("main")
        assert page.evaluate(CUT) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        current = page.locator("nav [aria-current=page] >> nth=0").bounding_box()
        assert current is not None
        assert current["x"] >= 0
        assert current["x"] + current["width"] <= 390
    to(page, "trust")
    labels = page.eval_on_selector(
        ".cards td >> nth=1", "(each) => getComputedStyle(each, '::before').content"
    )
    assert labels == '"Expected"'


def test_a_simulation_is_never_green(
    busy: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    page = opened(consoles(busy, "alice"), reduced_motion="reduce")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for path in ("trust", *SECTIONS, "workloads?show=refused", "manifest/picture"):
            to(page, path)
            assert page.evaluate(GREEN, GREENS) == [], (theme, path)
            assert page.locator("meter").count() == 0  # browsers paint it green
    # The search finds green, where it is.
    page.evaluate("document.documentElement.classList.remove('simulated')")
    to(page, "trust")
    page.evaluate("document.documentElement.classList.remove('simulated')")
    assert page.evaluate(GREEN, GREENS) != []
    assert "simulated" in page.inner_text("main")


def test_a_plot_has_axes_and_units(
    busy: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    page = opened(consoles(busy, "alice"))
    to(page, "workloads")
    assert "Activations per minute" in page.inner_text(".card h2 >> nth=0").strip()
    assert page.locator(".chart .up span").all_inner_texts() == ["1", "0"]
    times = page.locator(".chart .axis time")
    assert times.count() == 3
    end, newest = times.nth(2).get_attribute("datetime"), page.get_attribute("td time", "datetime")
    assert page.evaluate("([a, b]) => new Date(a) >= new Date(b)", [end, newest])
    assert page.get_by_role("img", name="Activations per minute").count() == 1


@pytest.mark.parametrize("width", [390, 1280, 2560])
def test_a_picture_has_readable_type_and_a_filter(
    width: int, tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    def many(content: dict[str, dict[str, object]]) -> None:
        for number in range(300):
            content["Secrets"][f"secret{number:03}"] = {"Type": "plain", "UserDefined": True}

    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(together(many)).status == 200
        page = opened(consoles(server, "writer"), viewport={"width": width, "height": 900})
        to(page, "manifest/picture")
        size = "(each) => each.getScreenCTM().a * parseFloat(getComputedStyle(each).fontSize)"
        assert page.eval_on_selector(".drawing .node text", size) >= 13
        assert "more Secrets" in page.inner_text("main")
        page.fill("input[type=search]", "SECRET299")
        with page.expect_navigation():
            page.click("text=Search")
        assert page.locator(".node.secrets").count() == 1
        assert "more Secrets" not in page.inner_text("main")
        page.fill("input[type=search]", "note")
        with page.expect_navigation():
            page.click("text=Search")
        assert page.locator(".node.users").count() > 0
        used, run = (
            page.eval_on_selector(f".legend .{rule}", "(each) => getComputedStyle(each).stroke")
            for rule in ("has", "reads")
        )
        assert used != run


def test_a_comparison_begins_with_the_newest_change_and_folds_unchanged_lines(
    busy: Server, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    page = opened(consoles(busy, "alice"))
    to(page, "manifest/compare")
    assert page.is_checked("input[name=left][value=earlier]")
    assert page.is_checked("input[name=right][value='in force']")
    assert "1 to change" in page.inner_text("main")
    everything = page.locator(".beside tbody tr").count()
    shown = sum(each.is_visible() for each in page.locator(".beside tbody tr").all())
    assert shown == 7  # the changed line, and three lines before and after
    assert everything > 20
    fold = page.locator(".fold").first
    lines = fold.locator("tr").count()
    assert fold.locator("summary").inner_text() == f"{lines} unchanged lines"
    fold.locator("summary").click()
    assert fold.locator("tr").first.is_visible()
    # A text with a problem comes back, with the line.
    page.check("input[name=right][value=text]")
    page.fill("textarea[name=right_text]", "Packages:\n  app: [\n")
    page.click("button:text('Compare')")
    page.wait_for_selector("[role=alert]")
    assert "Line " in page.inner_text("[role=alert]")
    assert page.input_value("textarea[name=right_text]") == "Packages:\n  app: [\n"


def test_an_empty_deployment_has_one_empty_state_with_a_next_step(
    tmp_path: Path, consoles: Callable[..., Console], opened: "Callable[..., Page]"
) -> None:
    with Server(tmp_path / "data") as server:
        page = opened(consoles(server, "alice"))
        assert "No manifest is set yet." in page.inner_text("main")
        texts = set()
        for path in SECTIONS:
            to(page, path)
            texts.add(page.inner_text("#live"))
            assert page.locator("[role=alert]").count() == 0
        (text,) = texts
        assert text.startswith("No manifest yet")
        assert "keyhouse manifest set manifest.yaml --context prod" in text
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        page.wait_for_function("() => !document.querySelector('.start-here')")


def test_pages_can_be_read_without_the_script(
    busy: Server, consoles: Callable[..., Console]
) -> None:
    found = consoles(busy, "alice")
    cookie = cookie_of(found)
    for path in ("trust", *SECTIONS, "manifest/picture", "manifest/compare", "manifest/source"):
        answer = ask(found, f"/d/prod/{path}", cookie)
        assert answer.status == 200
        assert "You: <strong>alice</strong>" in answer.text
