"""The built site in a browser: accessible, self-contained, and whole without its script."""

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_site import copy_record, make, mkdocs

from fba_lab import recorder

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)"
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
BLOCK = "blocks/model-compile/"
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line on each."""

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A served site with results of two devices and a problem on its page."""
    root = make(tmp_path_factory.mktemp("browser"))
    recorder.record_all(root, device_name="cpu")
    copy_record(root, "first-steps", "h200", provenance={"device_name": "NVIDIA H200"}, key="old")
    with (root / "docs/blocks/model-compile.md").open("a") as page:
        page.write('\n```python exec="true"\npages.shwo()\n```\n{{ code("gone") }}\n')
    assert mkdocs(root).returncode == 0
    handler = functools.partial(Quiet, directory=root / "site")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator["sync_api.Browser"]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("path", ["", BLOCK, "source/train_gpt/"])
def test_accessible_contained_and_narrow(
    browser: "sync_api.Browser", address: str, path: str, size: dict, scheme: str
) -> None:
    page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    requests, said = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address + path, wait_until="load")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    found = axe.Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
    assert [url for url in requests if not url.startswith((address, "data:"))] == []
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.close()


def open_devices(page: "sync_api.Page") -> set[str]:
    """Return the classes of the unfolded results of the first example."""
    found = page.locator(".lab-example").first.locator("details.device[open]")
    return {one.get_attribute("class").split("device-")[1] for one in found.all()}


def test_controls_fold_and_persist(browser: "sync_api.Browser", address: str) -> None:
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    page.goto(address + BLOCK)
    assert open_devices(page) == {"cpu"}
    assert page.locator("details.level-learner").get_attribute("open") is not None
    page.get_by_label("One GPU").focus()
    page.keyboard.press("Space")  # by keyboard, as by mouse
    page.get_by_label("Engineer").check()
    assert open_devices(page) == {"h200"}
    page.reload()
    assert open_devices(page) == {"h200"}
    assert page.locator("details.level-learner").get_attribute("open") is None
    assert page.locator("details.level-engineer").get_attribute("open") is not None
    page.get_by_label("Eight GPUs").check()
    assert open_devices(page) == {"h200"}  # the nearest there is
    context.close()


def test_everything_is_there_without_a_script(browser: "sync_api.Browser", address: str) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=PHONE)
    page = context.new_page()
    page.goto(address + BLOCK)
    for text in ("Plain words.", "NVIDIA H200", "doubled: 42", "study train_gpt.py"):
        assert page.get_by_text(text).first.is_visible(), text
    assert page.locator("details.device:not([open])").count() == 0
    assert not page.locator(".lab-control").first.is_visible()
    context.close()


def test_scrolling_parts_are_reached_by_keyboard(browser: "sync_api.Browser", address: str) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto(address + BLOCK, wait_until="load")
    out_of_reach = page.evaluate(
        """() => [...document.querySelectorAll(".md-content *")].filter((one) =>
            /auto|scroll/.test(getComputedStyle(one).overflowX) && one.scrollWidth > one.clientWidth
            && one.tabIndex < 0).map((one) => one.outerHTML.slice(0, 120))"""
    )
    assert out_of_reach == []
    page.close()


def test_a_link_into_something_folded_unfolds_it(browser: "sync_api.Browser", address: str) -> None:
    page = browser.new_page(viewport=DESKTOP)
    page.goto(address + BLOCK + "#model-compile-fails-15")
    assert page.locator("#model-compile-fails-15").is_visible()
    page.close()


def test_pages_are_light(address: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    site = next(Path(tmp_path_factory.getbasetemp()).glob("browser*/site"))
    assert (site / BLOCK / "index.html").stat().st_size < 250_000
    ours = sum(path.stat().st_size for path in (site / "assets").glob("lab.*"))
    assert ours < 40_000
