"""The architecture page explains its pictures, and their texts fit."""

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from docs import diagrams

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PICTURES = (*diagrams.ALL, diagrams.shares())
WIDEST_CHARACTER = 8.2
"""Pixels of a bold character of 13 px in a wide font (DejaVu Sans), on average."""
SVG = "{http://www.w3.org/2000/svg}"


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_glossary_is_short() -> None:
    assert 20 <= len(re.findall(r"^\| (?!term|---)", section("Glossary"), re.MULTILINE)) <= 30


def test_the_page_shows_every_picture() -> None:
    shown = re.findall(r"^:file: pictures/(.+)\.svg$", PAGE, re.MULTILINE)
    assert shown == [picture.name for picture in diagrams.ALL]


def test_the_page_explains_every_number_of_the_picture() -> None:
    arrows = (shape for shape in diagrams.components().shapes if isinstance(shape, diagrams.Arrow))
    explained = re.findall(r"^(\d+)\. ", section("Components"), re.MULTILINE)
    assert [int(each) for each in explained] == sorted(arrow.number or 0 for arrow in arrows)


def test_the_picture_of_the_layers_is_what_import_linter_checks() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    contract = tomllib.loads(text)["tool"]["importlinter"]["contracts"][0]
    boxes = [shape for shape in diagrams.layers().shapes if isinstance(shape, diagrams.Box)]
    rows = [{box.title for box in boxes if box.y == y} for y in dict.fromkeys(box.y for box in boxes)]
    assert rows == [
        {name.strip().removeprefix("gpushare.") for name in row.split("|")} for row in contract["layers"][1:]
    ]


def test_the_picture_of_the_readme_is_current() -> None:
    """`python -m docs.diagrams` writes it."""
    assert diagrams.README.read_text() == diagrams.shares().svg()
    assert f"(docs/{diagrams.README.name})" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_well_formed_and_nothing_leaves_its_frame(picture: diagrams.Picture) -> None:
    drawn = ET.fromstring(picture.svg())  # noqa: S314 - our own text
    for text in drawn.iter(f"{SVG}text"):
        x, width = float(text.attrib["x"]), len(text.text or "") * WIDEST_CHARACTER
        left = x if text.attrib["text-anchor"] == "start" else x - width / 2
        assert left >= 0, text.text
        assert left + width <= picture.width, text.text
        assert float(text.attrib["y"]) <= picture.height, text.text


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_the_text_of_a_box_fits_into_it(picture: diagrams.Picture) -> None:
    for box in picture.shapes:
        if isinstance(box, diagrams.Box):
            assert len(box.title) * WIDEST_CHARACTER <= box.width
            assert all(len(line) * WIDEST_CHARACTER * 0.87 <= box.width for line in box.lines)
