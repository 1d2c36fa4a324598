"""The Chinese pages have Chinese punctuation, and links between each other."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[3] / "docs/zh").glob("*.md"))
CHINESE = "[\u4e00-\u9fff]"
BESIDE_CHINESE = re.compile(rf"{CHINESE}[`*)\]]*[,;:()!?]|[,;:()!?][`*(\[]*{CHINESE}")
"""Half-width punctuation that follows a Chinese character, or is followed by one."""


def prose(text: str) -> str:
    """Without blocks of code, code in lines, and the targets of links."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_punctuation_beside_chinese_is_full_width(page: Path) -> None:
    assert [match[0] for match in BESIDE_CHINESE.finditer(prose(page.read_text()))] == []


@pytest.mark.parametrize("text", ["显存,节点", "插件(device", "的 plugin)选择说明:`x`", "`x`;显存"])
def test_half_width_punctuation_is_found(text: str) -> None:
    assert BESIDE_CHINESE.search(prose(text))


@pytest.mark.parametrize(
    "text", ["显存，节点（device plugin）", "见[安装](install.md)（英文）", "`a: b`，1.36"]
)
def test_other_texts_are_not(text: str) -> None:
    assert not BESIDE_CHINESE.search(prose(text))
