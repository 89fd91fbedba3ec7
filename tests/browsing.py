"""A headless Chromium and a server for folders, for tests that look at built pages."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(
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
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line on each."""

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder for a while; gives its address."""
    handler = functools.partial(Quiet, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@contextlib.contextmanager
def chromium() -> Iterator[sync_api.Browser]:
    """Start a browser for a while."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def faults(page: sync_api.Page, url: str) -> list[str]:
    """Open a page and return what is wrong with it: one line each."""
    home = "/".join(url.split("/")[:3]) + "/"
    requests: list[str] = []
    found: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: found.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: found.append(f"error: {error}"))
    page.goto(url, wait_until="load")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    for one in axe.Axe().run(page).response["violations"]:
        found.append(f"axe: {one['id']}: {one['nodes'][0]['html'][:200]}")
    found += [f"asks {one}" for one in requests if not one.startswith((home, "data:"))]
    if (wide := page.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0:
        found.append(f"{wide} px wider than the window")
    return found
