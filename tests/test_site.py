"""Every page of the real site in a browser: accessible, light, and from one host."""

import gzip
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import DESKTOP, PHONE, chromium, faults, needs_chromium, serve, sync_api

from fba_lab.example import ROOT

pytestmark = [needs_chromium, pytest.mark.slow]
LIMIT = 500_000
"""Bytes that a page may transfer, compressed, before a reader asks for a trace."""
SOURCES = [f"source/{path.stem}/" for path in (ROOT / "snippets").glob("[!_]*.py")]
PAGES = [
    re.sub(r"(^|/)index$", r"\1", path.relative_to(ROOT / "docs").with_suffix("").as_posix())
    for path in sorted((ROOT / "docs").rglob("*"))
    if path.suffix in (".md", ".ipynb")
]
PATHS = [*(f"{page}/".lstrip("/") for page in PAGES), *sorted(SOURCES)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(site)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    with serve(site) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator["sync_api.Browser"]:
    with chromium() as browser:
        yield browser


def weight(response: "sync_api.Response") -> int:
    """Return the bytes that a response takes, as a host that compresses would send it."""
    body = response.body()
    packed = response.url.endswith((".woff2", ".png", ".jpg", ".gz"))
    return len(body if packed else gzip.compress(body))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_page(browser: "sync_api.Browser", address: str, path: str, scheme: str) -> None:
    size = PHONE if scheme == "dark" else DESKTOP
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(120_000)
    responses: list[sync_api.Response] = []
    page.on("response", lambda response: responses.append(response))
    assert faults(page, address + path) == []
    page.wait_for_load_state("networkidle")
    weights = {one.url.removeprefix(address): weight(one) for one in responses if one.ok}
    assert path in weights or path == ""
    assert sum(weights.values()) < LIMIT, weights
    context.close()


def test_all_pages_are_looked_at(address: str, browser: "sync_api.Browser") -> None:
    page = browser.new_page()
    page.goto(address)
    links = page.eval_on_selector_all(".md-nav a[href]", "all => all.map((one) => one.href)")
    found = {Path(link.removeprefix(address).split("#")[0]).as_posix() for link in links}
    looked_at = {Path(path).as_posix() for path in PATHS}
    assert found <= looked_at
    page.close()
