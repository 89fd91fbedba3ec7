"""What a block is: one named region of a trainer, and what it looks like in the syntax tree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """One statement, by its structure; every condition that is given must hold.

    All conditions but `node` are regular expressions for a whole name.
    """

    node: str
    """"function", "class", "assign", or "call" for a plain statement."""
    name: str = ""
    """Name of the definition, or of something that is assigned to."""
    inside: str | None = None
    """Qualified name of the definition around it; "" for the top level."""
    decorated: str = ""
    """Dotted name of one of its decorators."""
    calls: tuple[str, ...] = ()
    """Dotted name of something it calls, one for each; the end of the name is enough."""
    mentions: tuple[str, ...] = ()
    """A name, attribute, argument or constant in it, one for each."""
    lacks: tuple[str, ...] = ()
    """A name, attribute, argument or constant that must not be in it."""
    has: tuple[str, ...] = ()
    """Kind of syntax node in it, such as For."""
    first_arg: str = ""
    """Source of the first positional argument of what `calls` matched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One named region of the trainer."""

    id: str
    """Kebab case; names the marker, page, examples folder, test and command-line argument."""
    title: str
    """What a list or a heading shows."""
    section: str
    """One of catalogue.SECTIONS."""
    summary: str
    """At most sixty words, and no number that could be measured."""
    hardware: str = "any"
    """"any" (also a CPU), "cuda", "fp8" (sm89 or newer) or "ranks" (several processes)."""
    switch: bool = False
    """Whether its id in Config.without turns the idea off."""
    find: tuple[tuple[Find, ...], ...]
    """Ways to find it; the first that fits decides. The first Find of a way must match; the others
    stretch the span over their matches in the same body."""
    taught: bool = True
    """Whether the site has a page on it."""
