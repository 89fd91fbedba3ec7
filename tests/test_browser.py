"""The built site in a browser: accessible, self-contained, and whole without its script."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsing import DESKTOP, PHONE, chromium, faults, needs_chromium, serve, sync_api
from small_site import copy_record, make, mkdocs, record_file

from fba_lab import recorder

pytestmark = needs_chromium
BLOCK = "blocks/model-compile/"
SCRIPT = Path(__file__).parents[1] / "docs/assets/lab.js"
PERFETTO = "https://ui.perfetto.dev"
MORE = """
```python exec="true"
pages.shwo()
```
{{ code("gone") }}

```python exec="true"
from fba_lab import pages
pages.timeline("model-compile/traced", "timeline", caption="What ran when")
```

```python exec="true"
from fba_lab import pages
pages.trace("model-compile/traced")
```
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built site with results of two devices and a problem on its page."""
    root = make(tmp_path_factory.mktemp("browser"))
    recorder.record_all(root, device_name="cpu")
    copy_record(root, "first-steps", "h200", provenance={"device_name": "NVIDIA H200"}, key="old")
    with (root / "docs/blocks/model-compile.md").open("a") as page:
        page.write(MORE)
    assert mkdocs(root).returncode == 0
    return root


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    with serve(root / "site") as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator["sync_api.Browser"]:
    with chromium() as browser:
        yield browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("path", ["", BLOCK, "source/train_gpt/"])
def test_accessible_contained_and_narrow(
    browser: "sync_api.Browser", address: str, path: str, size: dict, scheme: str
) -> None:
    page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    assert faults(page, address + path) == []
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


def test_a_budget_hides_no_result_that_has_one_device(browser: "sync_api.Browser") -> None:
    page = browser.new_page()
    block = '<details class="device device-{}" open><summary>{}</summary></details>'.format
    both = block("cpu", "both, cpu") + block("h200", "both, h200")
    alone = block("h200", "alone")  # the chart of an example that runs on a GPU only
    page.set_content(f"<article>{both}<p>Words.</p>{alone}</article>")
    page.add_script_tag(path=str(SCRIPT))
    opened = page.locator("details[open] summary").all_inner_texts()
    assert opened == ["both, cpu", "alone"]
    page.close()


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


def test_a_tap_on_a_number_says_where_it_is_from(browser: "sync_api.Browser", address: str) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto(address + BLOCK)
    number = page.locator(".lab-number").first
    number.click()
    said = page.get_by_role("status").filter(has_text=number.get_attribute("title"))
    assert said.is_visible()
    page.locator("h1").click()
    assert said.is_hidden()
    page.close()


def test_pages_are_light(root: Path, address: str) -> None:
    site = root / "site"
    assert (site / BLOCK / "index.html").stat().st_size < 250_000
    ours = sum(path.stat().st_size for path in (site / "assets").glob("lab.*"))
    assert ours < 40_000


def test_search_has_prose_and_no_results(root: Path) -> None:
    index = json.loads((root / "site/search/search_index.json").read_text())
    text = " ".join(one["text"] for one in index["docs"])
    assert "Plain words." in text
    assert "compile_model" in text  # the block's own code
    for result in ("doubled: 42", "20.75", "EVIL", "ZeroDivisionError", "matmul", "Building the"):
        assert result not in text, result


# --- Traces ---------------------------------------------------------------------------------------

ANSWERS = """<title>Perfetto</title><script>
onmessage = (event) => {
  (window.heard ??= []).push(event.data);
  if (event.data === "PING") event.source.postMessage("PONG", event.origin);
};
</script>"""
SILENT = "<title>Perfetto</title>"
HTML = "text/html"
Opened = tuple["sync_api.Page", list[str]]


@pytest.fixture
def opened(browser: "sync_api.Browser", address: str) -> Iterator[Callable[[str], Opened]]:
    """Return a function: the block's page, with a stand-in for Perfetto, and all requests."""
    context = browser.new_context(viewport=DESKTOP)
    requests: list[str] = []
    context.on("request", lambda request: requests.append(request.url))

    def load(answer: str, before: str = "") -> Opened:
        context.route(f"{PERFETTO}/**", lambda route: route.fulfill(body=answer, content_type=HTML))
        page = context.new_page()
        page.add_init_script(before)
        page.goto(address + BLOCK, wait_until="load")
        page.set_default_timeout(10_000)
        return page, requests

    yield load
    context.close()


def click(page: "sync_api.Page") -> "sync_api.Page":
    """Click the button and return the window that it opens."""
    with page.expect_popup() as window:
        page.get_by_role("button", name="Open in Perfetto").click()
    return window.value


def said(page: "sync_api.Page", text: str) -> None:
    """Wait until the line beside the button says this."""
    status = page.locator(".lab-trace__said")
    sync_api.expect(status).to_contain_text(text)


def test_a_trace_arrives_byte_for_byte(
    root: Path, address: str, opened: Callable[..., Opened]
) -> None:
    page, requests = opened(ANSWERS)
    assert "another site, ui.perfetto.dev, in a new window" in page.inner_text(".lab-trace__note")
    assert page.locator(".lab-trace__said").get_attribute("role") == "status"
    page.wait_for_timeout(300)
    assert [url for url in requests if not url.startswith((address, "data:"))] == []
    assert [url for url in requests if url.endswith(".gz")] == []  # not even our own trace
    window = click(page)
    said(page, "Handed over")
    window.wait_for_function("heard.at(-1).perfetto")
    heard = window.evaluate(
        """heard.map((one) => one === "PING" ? one : {...one.perfetto,
            buffer: [...new Uint8Array(one.perfetto.buffer)]})"""
    )
    [artefact] = json.loads(record_file(root, "traced").read_text())["artefacts"]
    file = record_file(root, "traced").with_name(artefact["file"])
    assert bytes(heard[-1]["buffer"]) == file.read_bytes()
    assert heard[-1]["fileName"] == artefact["file"]
    assert heard[-1]["title"] == "model-compile/traced on cpu"
    assert set(map(str, heard[:-1])) == {"PING"}
    page.wait_for_timeout(300)
    assert window.evaluate("heard.length") == len(heard)  # once, and no further PING
    assert {url for url in requests if not url.startswith((address, "data:"))} == {f"{PERFETTO}/"}


def test_a_blocked_window_is_said(opened: Callable[..., Opened]) -> None:
    page, requests = opened(ANSWERS, "window.open = () => null")
    page.get_by_role("button", name="Open in Perfetto").click()
    said(page, "The browser blocked the new window.")
    assert [url for url in requests if url.endswith(".gz")] == []


@pytest.mark.parametrize("how", ["abort", "404"])
def test_a_failed_download_is_said_and_closes_the_window(
    opened: Callable[..., Opened], how: str
) -> None:
    page, _ = opened(ANSWERS)
    answer = {"abort": lambda route: route.abort(), "404": lambda route: route.fulfill(status=404)}
    page.route(re.compile(r"\.gz$"), answer[how])
    window = click(page)
    said(page, "the file could not be fetched")
    if not window.is_closed():
        window.wait_for_event("close")
    assert page.get_by_role("button", name="Open in Perfetto").is_enabled()


def test_no_answer_is_said(opened: Callable[..., Opened]) -> None:
    page, _ = opened(SILENT)
    page.clock.install()
    window = click(page)
    page.clock.run_for(20_000)
    said(page, "Opening")
    page.clock.run_for(11_000)
    said(page, "it did not answer within 30 s")
    assert not window.is_closed()


def test_an_answer_of_another_window_does_not_count(opened: Callable[..., Opened]) -> None:
    page, _ = opened(SILENT)
    click(page)
    page.evaluate("postMessage('PONG', '*')")
    page.wait_for_timeout(300)
    said(page, "Opening")


def test_a_window_closed_too_early_is_said(opened: Callable[..., Opened]) -> None:
    page, _ = opened(SILENT)
    click(page).close()
    said(page, "its window was closed")


def test_without_a_script_the_trace_is_a_link(browser: "sync_api.Browser", address: str) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=PHONE)
    page = context.new_page()
    page.goto(address + BLOCK)
    assert page.locator(".lab-trace a[download]").is_visible()
    assert not page.locator(".lab-trace button").is_visible()
    context.close()
