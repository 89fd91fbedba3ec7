"""Makes a page of ours from what mkdocs-jupyter renders of a notebook.

It comes with the styles of JupyterLab, larger than all the rest of a page, in one scheme only, and
with scripts that ask other hosts. Here it is left with its cells, which the site's own style draws.
"""

from __future__ import annotations

import re
from html import escape

from fba_lab import build, notebook, render, results, terminal

# Styles, scripts, and the button that copies: none works without the scripts.
_DROPPED = (
    r"<style\b.*?</style>",
    r"<script\b.*?</script>",
    r'<div class="zeroclipboard-container">.*?</clipboard-copy>\s*</div>',
    r"<div\b[^>]*\bclipboard-copy-txt\b[^>]*>.*?</div>",
    r"<!--.*?-->",
)
_PRE = re.compile(r"<pre[^>]*>(.*?)</pre>", re.DOTALL)
_CODE = re.compile(
    r'<div class="highlight-ipynb hl-\w+\s*">\s*(<pre>.*?</pre>)\s*</div>', re.DOTALL
)


def page(html: str, path: str, site: build.Build) -> str:
    """Return the content of a notebook's page.

    Args:
        html: what mkdocs-jupyter made of it.
        path: the notebook's file, relative to the root.
        site: the build.
    """
    for pattern in _DROPPED:
        html = re.sub(pattern, "", html, flags=re.DOTALL)
    html = html.replace("¶</a>", '<span aria-hidden="true">¶</span></a>')
    html = re.sub(r'<a class="anchor-link"', '<a class="headerlink" title="Permanent link"', html)
    html = re.sub(r' tabindex="-?\d+"', "", html)
    html = _CODE.sub(
        lambda found: f'<div class="highlight">{_reachable(found[1], "Code")}</div>', html
    )
    html = re.sub(
        r'(<div class="jp-RenderedText[^>]*>)(.*?)</div>',
        lambda found: f"{found[1]}{_reachable(found[2], 'Output')}</div>",
        html,
        flags=re.DOTALL,
    )
    head, mark, rest = html.partition("</h1>")
    return f"{head}{mark}{about(path, site)}{rest}" if mark else about(path, site) + html


def _reachable(html: str, label: str) -> str:
    """Return text that may scroll sideways so that a keyboard can reach it."""
    code = _PRE.search(html)
    inner = re.sub(r"^\s*<span></span>", "", code[1] if code else html)
    return render.region("pre", render.tag("code", inner), label)


def about(path: str, site: build.Build) -> str:
    """Return what the notebook was run with, what is wrong with that, and where its file is.

    Problems are noted at the notebook.
    """
    file = site.root / path
    if file.parent != site.root / notebook.FOLDER:
        return ""
    one = notebook.read(file, site.root)  # of all of them, another may be broken
    parts = []
    for shown in results.all_of(one, site) if site.mode != "off" else ():
        results.answer_for(shown, site)
        parts += [render.tag("p", escape(text), class_="lab-notice") for text in shown.notices]
        if shown.result:
            words = f"Run on {terminal.provenance(shown.result)}. "
            link = render.tag("a", "The notebook", href=file.name)
            parts.append(render.tag("p", escape(words) + link, class_="lab-provenance"))
    return "".join(parts)
