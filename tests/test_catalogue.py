from __future__ import annotations

import ast

import pytest

from fba_lab import catalogue
from fba_lab.example import ROOT
from fba_lab.locate import markers


def test_names_convert_both_ways() -> None:
    for block_id in catalogue.IDS:
        assert catalogue.block_id(catalogue.folder(block_id)) == block_id
        assert catalogue.folder(block_id).isidentifier()


def test_catalogue_is_whole() -> None:
    assert len(set(catalogue.IDS)) == len(catalogue.IDS)
    assert {block.section for block in catalogue.BLOCKS} == set(catalogue.SECTIONS)
    for block in catalogue.BLOCKS:
        assert 5 < len(block.summary.split()) <= 60, block.id
        assert not any(letter.isdigit() for letter in block.summary), block.id
    order = [catalogue.SECTIONS.index(block.section) for block in catalogue.BLOCKS]
    assert order == sorted(order)


def test_blocks_are_those_that_the_trainer_marks() -> None:
    assert set(markers(ROOT / "snippets" / "train_gpt.py")) == set(catalogue.IDS)


def test_switches_are_those_of_the_trainer() -> None:
    tree = ast.parse((ROOT / "snippets" / "train_gpt.py").read_text(encoding="utf-8"))
    values = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    switches = set(ast.literal_eval(values["SWITCHES"]))
    assert {block.id for block in catalogue.BLOCKS if block.switch} == switches


def test_unknown_block_offers_the_nearest() -> None:
    with pytest.raises(catalogue.UnknownBlock, match="did you mean polar-express"):
        catalogue.get("polar-expres")
