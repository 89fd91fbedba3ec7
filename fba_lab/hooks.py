"""MkDocs hooks: they carry pages to the lab and the lab's problems to the log, and no more.

MkDocs loads this file by its path. A problem becomes a warning, which `--strict` fails on.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import ConfigurationError
from mkdocs.plugins import event_priority, get_plugin_logger
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

if str(Path(__file__).resolve().parent.parent) not in sys.path:
    # The package may not be installed: the file was found by its path, its siblings are beside it.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fba_lab import (
    build,
    catalogue,
    example,
    fences,
    jupyter,
    notebook,
    pages,
    prose,
    recorder,
    render,
    results,
    suite,
)

log = get_plugin_logger("fba_lab")
SOURCE_PAGE = """---
title: {file}
search:
  exclude: true
hide: [toc]
---
# {file}

```python exec="true" html="1"
from fba_lab import pages
pages.source("{file}")
```
"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Read the mode and begin a build."""
    mode = os.environ.get("LAB_MODE") or "replay"
    if mode not in build.MODES:
        hint = catalogue.nearest(mode, build.MODES)
        raise ConfigurationError(f"LAB_MODE={mode} is no mode{hint}")
    build.start(Path(config.config_file_path).resolve().parent, mode)
    return config


def on_pre_build(config: MkDocsConfig) -> None:
    """Run what the mode asks for, before any page is read."""
    site = build.current
    try:
        if site.mode == "record":
            # `mkdocs serve` builds again at each save: from the second time on, only what changed.
            recorder.record_all(root=site.root, stale=site.root in build.recorded, report=_tell)
            build.recorded.add(site.root)
        elif site.mode == "run" and find_spec("torch"):
            recorder.run_missing(root=site.root, report=_tell)
        elif site.mode == "run":
            log.info("torch is not installed: nothing is run, records are shown")
    except (ValueError, OSError) as error:
        log.warning(str(error))


def _tell(result: recorder.Result) -> None:
    """Log how one example went; its page warns when it ended otherwise than declared."""
    log.info(f"{result.example.id} on {result.device}: {result.status}, {result.seconds:.1f} s")


@event_priority(-50)  # after the plugins that add files of their own
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Publish source files and artefacts, and learn where each page is."""
    site = build.current
    for path in sorted((site.root / "snippets").glob("*.py")):
        if path.stem != "__init__":
            name = path.relative_to(site.root).as_posix()
            content = SOURCE_PAGE.format(file=name)
            files.append(_generated(config, f"source/{path.stem}.md", content=content))
            site.sources[name] = files.src_uris[f"source/{path.stem}.md"].url
    for one in _all_results(site) if site.mode != "off" else ():
        _publish(one, files, config)
    for file in list(files.documentation_pages()):
        _check_text(file, files, config)
    _log(site)
    site.pages = {file.src_uri: file.url for file in files.documentation_pages()}
    return files


def _publish(one: results.Shown, files: Files, config: MkDocsConfig) -> None:
    """Publish the artefacts of a result; each must be a file of its own beside the record."""
    for artefact in one.result["artefacts"] if one.result and one.folder else ():
        name = str(artefact["file"])
        source = one.folder / name
        uri = f"records/{one.device}/{one.example.block}/{name}"
        # A path would lead out of the record's folder, and out of the site's.
        if not re.fullmatch(r"[\w.+-]+", name) or not name.startswith(f"{one.example.name}."):
            _blame(one, f"artefact '{name}' is not a bare name that begins {one.example.name}.")
        elif not source.is_file():
            if one.problem is None:
                _blame(one, f"artefact '{name}' is missing")
        elif uri not in files.src_uris:
            files.append(_generated(config, uri, abs_src_path=str(source)))


def _blame(one: results.Shown, what: str) -> None:
    site = build.current
    path = os.path.relpath((one.folder or site.root) / f"{one.example.name}.json", site.root)
    site.report(what, one.todo, path=Path(path).as_posix(), line=1)


def _check_text(file: File, files: Files, config: MkDocsConfig) -> None:
    """Put a stand-in for a page that would end the build when it is read.

    That is one which is not UTF-8, or a notebook that is none.
    """
    site, todo = build.current, "save it as UTF-8"
    try:
        file.content_string  # noqa: B018  # decodes it
        if file.src_uri.endswith(notebook.SUFFIX):
            todo = ""  # the error says it
            notebook.read(Path(str(file.abs_src_path)), site.root)
    except (ValueError, OSError) as error:
        what = f"the page cannot be read: {error}"
        path = os.path.relpath(file.abs_src_path or file.src_uri, site.root)
        site.report(what, todo, path=Path(path).as_posix(), line=1)
        files.remove(file)
        uri = file.src_uri.removesuffix(notebook.SUFFIX).removesuffix(".md") + ".md"
        files.append(File.generated(config, uri, content=f"# {prose.inert(what)}\n"))


def _generated(config: MkDocsConfig, uri: str, **origin: str) -> File:
    return File.generated(config, uri, inclusion=InclusionLevel.NOT_IN_NAV, **origin)


def _all_results(site: build.Build) -> list[results.Shown]:
    """Return the results of all examples; what is broken is reported later, with its place."""
    found = []
    with suppress(ValueError):
        for each in example.discover(site.root).values():
            with suppress(ValueError):
                found += results.all_of(each, site)
    return found


@event_priority(100)  # before any plugin changes the number of lines
def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace macros, refuse fences that may not be evaluated, and count the others."""
    site = build.current
    site.enter_page(_page_path(page, site), get_relative_url(".", page.url) + "/")
    if page.file.src_uri.endswith(notebook.SUFFIX):
        return markdown  # a notebook is no Markdown, and is rendered as a whole
    text = page.file.content_string
    first_line = 1 + len(text.rstrip().split("\n")) - len(markdown.rstrip().split("\n"))
    parts = []
    for piece in fences.split(markdown, first_line):
        site.line = piece.line
        parts.append(_piece(piece, site))
    return "\n".join(parts)


def _page_path(page: Page, site: build.Build) -> str:
    path = Path(page.file.abs_src_path or f"{site.root}/docs/{page.file.src_uri}")
    return Path(os.path.relpath(path, site.root)).as_posix()


def _piece(piece: fences.Piece, site: build.Build) -> str:
    text = "\n".join(piece.lines)
    found = None if piece.evaluated else fences.overlooked(piece)
    if found:
        site.report(found[1], line=found[0])
    if not piece.fenced:
        return prose.expand(text, piece.line, site)
    if not piece.evaluated:
        return text
    refused = fences.refuse(piece, pages.CALLS)
    if refused:
        site.report(refused)
        box = render.problem(refused, "", f"{site.page}:{piece.line}")
        return f"\n{piece.indent}{box}\n"
    site.declared.add(piece.line)
    return fences.instrument(piece)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Hold the fences declared against those evaluated, and log what went wrong on the page."""
    site = build.current
    for line in sorted(site.declared - site.evaluated):
        site.report("the fence was not evaluated", "check its options and indentation", line=line)
    for line in sorted(site.evaluated - site.finished):
        site.report("the fence was not evaluated to its end", line=line)
    if page.file.src_uri.endswith(notebook.SUFFIX):
        html = jupyter.page(html, site.page, site)
    names = set(re.findall(r'\sid="([^"]*)"', html))
    for name in sorted(set(re.findall(r'<a [^>]*href="#([^"]+)"', html)) - names):
        site.report(f"a link leads to #{name}, which is not on the page", line=1)
    _log(site)
    return html


def on_post_build(config: MkDocsConfig) -> None:
    """Answer for the required records that no page shows, too."""
    site = build.current
    try:
        found = list(notebook.everything(site.root).values())
    except (ValueError, OSError) as error:
        log.warning(str(error))
        return
    for each in found if site.mode != "off" else ():
        site.enter_page(each.file, "")
        try:
            for one in results.all_of(each, site):
                results.answer_for(one, site)
        except ValueError as error:  # a record that cannot be read
            site.report(str(error))
    _answer_for_suite(site)
    _log(site)


def _answer_for_suite(site: build.Build) -> None:
    """Report the record of the tests that need a GPU, where it is promised and does not hold."""
    site.enter_page(suite.TESTS, "")
    try:
        if site.mode != "off" and (found := suite.problem(site.root)):
            site.report(found, "on such a GPU, type: pytest -m gpu --record", line=1)
    except ValueError as error:
        site.report(str(error), line=1)


def _log(site: build.Build) -> None:
    """Log each problem once; in mode `off` nothing is checked, so nothing may fail."""
    # MkDocs doesn't count warnings that --quiet hides: a strict build would pass without a word.
    loud = log.warning if log.isEnabledFor(logging.WARNING) else log.error
    for problem in site.problems[site.logged :]:
        (log.info if site.mode == "off" else loud)(str(problem))
    site.logged = len(site.problems)
