"""What a run printed, made fit to keep: no path, user or host name, and lines that can move."""

from __future__ import annotations

import getpass
import os
import re
import site
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from fba_lab import place
from fba_lab.example import ROOT

TEXT_LIMIT = 64 * 1024
"""Bytes of UTF-8 that the text of a record may have."""

# Names that say nothing about anyone, and that are words of the texts themselves.
_NOBODY = {"root", "user", "lab", "ubuntu", "runner", "admin", "nobody", "localhost", "main"}
_FILE_LINE = re.compile(r'File "(snippets/[\w/]+\.py)", line (\d+)')
_COLON_LINE = re.compile(r"(?<![\w/.])(snippets/[\w/]+\.py):(\d+)")
# Who logged it stays; date, time and process id differ each time. Kineto's probes hold no more.
_LOG_STAMP = re.compile(r"\b([VDIWEF])\d{4} \d\d:\d\d:\d\d\.\d+ \d+ (?=\S+:\d+\])")
_PROBE = re.compile(r"^USDT:\d{4}-.*\n?", re.MULTILINE)
_TRACE_HOST = re.compile(r'("host_name": )"[^"]*"')  # however short or common the name
_TOKEN = re.compile(r"⟦(file|colon) ([\w.<>]+) (\d+)\+(\d+)⟧")


def cut(text: str, left_out: int = 0, at: int | None = None, limit: int = TEXT_LIMIT) -> str:
    """Return text of at most `limit` bytes, with a line in the middle that says what is missing.

    Args:
        text: what is there.
        left_out: bytes already missing from it.
        at: index of the character where they are missing.
        limit: bytes of UTF-8 allowed.
    """
    raw = text.encode("utf-8", "replace")
    if not left_out and len(raw) <= limit:
        return raw.decode()
    head, tail = (text[:at], text[at:]) if left_out else (text, text)
    room = limit // 2 - 64  # for the line itself
    first = _whole_lines(head.encode("utf-8", "replace")[:room].decode("utf-8", "ignore"), -1)
    last = _whole_lines(tail.encode("utf-8", "replace")[-room:].decode("utf-8", "ignore"), 1)
    missing = left_out + len(raw) - len(first.encode()) - len(last.encode())
    return f"{first}\n[... {missing:,} bytes left out here ...]\n{last}"


def _whole_lines(text: str, keep: int) -> str:
    before, newline, after = text.rpartition("\n") if keep < 0 else text.partition("\n")
    if not newline:
        return text
    return before if keep < 0 else after


def scrub(text: str, paths: Mapping[str, str] | None = None, root: Path = ROOT) -> str:
    """Return text without paths, user and host names of this machine, lines of snippets/ as tokens.

    Args:
        text: anything that a run said.
        paths: folders of this run and what stands for each, such as {"/tmp/x": "$TMP"}.
        root: the repository; paths in it become relative.
    """
    text = text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written
    for path, shown in _folders(paths or {}, root):
        text = re.sub(rf"{re.escape(path)}(?=/|\b|$)", lambda _, shown=shown: shown, text)
    text = text.replace("$ROOT/", "").replace("$ROOT", ".")
    text = _shortened(root).sub("", text)
    text = re.sub(r"/(?:home|Users)/[^/\s\"':]+", "$HOME", text)
    for name, shown in _names():
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", shown, text)
    text = _LOG_STAMP.sub(r"\1 ", _PROBE.sub("", text))
    text = _TRACE_HOST.sub(r'\1"$HOST"', text)
    text = _FILE_LINE.sub(lambda match: _token("file", match, root), text)
    return _COLON_LINE.sub(lambda match: _token("colon", match, root), text)


def _shortened(root: Path) -> re.Pattern[str]:
    """Match what is left of the root where a message shows only the end of a long path.

    Dynamo prints guards so: `# ome/me/lab/snippets/x.py:3`.
    """
    path = f"{root}/"
    ends = "|".join(re.escape(path[at:]) for at in range(1, len(path)))
    return re.compile(rf"(?<![\w/.$-])(?:{ends})(?=(?:snippets|fba_lab)/)")


def scrubbed(value: object, clean: Callable[[str], str]) -> object:
    """Return a JSON value with every text in it cleaned, keys included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [scrubbed(item, clean) for item in value]
    if isinstance(value, dict):
        return {clean(str(key)): scrubbed(item, clean) for key, item in value.items()}
    return value


def render_places(text: str, root: Path = ROOT) -> str:
    """Return text with the tokens that stand for lines of snippets/ turned into today's lines."""
    return _TOKEN.sub(lambda match: _line(match, root), text)


def _line(match: re.Match[str], root: Path) -> str:
    form, definition, offset, within = match.groups()
    spot = place.to_line(definition, int(offset), root, within=int(within))
    file = spot.file if spot else place.file_of(definition, root) or "snippets"
    if form == "file":
        return f'File "{file}", line {spot.line if spot else "?"}'
    return f"{file}:{spot.line if spot else '?'}"


def _token(form: str, match: re.Match[str], root: Path) -> str:
    try:
        found = place.to_place(Path(root) / match[1], int(match[2]), root)
    except place.BadSource:
        found = None
    if found is None:
        return match[0]
    return f"⟦{form} {found.definition} {found.offset}+{found.within}⟧"


def _folders(paths: Mapping[str, str], root: Path) -> list[tuple[str, str]]:
    """Return (folder, what stands for it), longest first, each also with its links resolved."""
    known = {str(root): "$ROOT", **paths}
    library = sysconfig.get_paths()
    for folder in (library["purelib"], library["platlib"], site.getusersitepackages()):
        known[folder] = "site-packages"
    known[library["stdlib"]] = "lib/python"
    package = Path(__file__).resolve().parent
    known[str(package)] = "fba_lab"
    known.setdefault(str(package.parent), "$LAB")
    for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix):
        known.setdefault(prefix, "$PYTHON")
    known[str(Path.home())] = known[os.path.expanduser(f"~{_user()}")] = "$HOME"
    known[tempfile.gettempdir()] = "$TMP"
    both = {form: shown for path, shown in known.items() for form in (path, os.path.realpath(path))}
    kept = [(path, shown) for path, shown in both.items() if path.count("/") > 1 or path == "/root"]
    return sorted(kept, key=lambda one: -len(one[0]))


def _names() -> list[tuple[str, str]]:
    found = {socket.gethostname(): "$HOST", socket.gethostname().split(".")[0]: "$HOST"}
    found[_user()] = "$USER"
    names = (name for name in found if len(name) > 2 and name.lower() not in _NOBODY)
    return [(name, found[name]) for name in sorted(names, key=len, reverse=True)]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id may have no name
        return ""
