"""Each decision is a record of one form, and the index lists all of them."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "docs/design/decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
TITLE = re.compile(r"# \d{4} [A-Z]\S.+[^.]")
DAY = r"20\d\d-\d\d-\d\d"
STATUS = re.compile(rf"Status: (?:proposed|accepted|superseded by \d{{4}}), {DAY}(?:; extended {DAY})?")
REQUIRED = ["Context", "Decision", "Reasons"]


def sections(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_has_a_number_a_status_a_date_and_reasons(record: Path) -> None:
    title, _, status, *_ = record.read_text().splitlines()
    assert TITLE.fullmatch(title)
    assert title[2:6] == record.name[:4]
    assert STATUS.fullmatch(status)
    assert sections(record.read_text()) in (REQUIRED, [*REQUIRED, "Alternatives"])


def test_records_are_numbered_in_a_row() -> None:
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


def test_a_superseded_record_names_one_that_exists() -> None:
    numbers = {record.name[:4] for record in RECORDS}
    named = [number for each in RECORDS for number in re.findall(r"superseded by (\d{4})", each.read_text())]
    assert set(named) <= numbers


def test_the_index_lists_each_record_once_with_its_title() -> None:
    listed = re.findall(r"^- \[(.+)\]\((\d{4}-.+\.md)\)$", (FOLDER / "index.md").read_text(), re.MULTILINE)
    titles = [(record.read_text().splitlines()[0].removeprefix("# "), record.name) for record in RECORDS]
    assert sorted(listed) == sorted(titles)


def test_the_template_has_the_form_of_a_record() -> None:
    text = (FOLDER / "template.md").read_text()
    assert sections(text) == [*REQUIRED, "Alternatives"]
    assert "\nStatus: accepted, YYYY-MM-DD\n" in text
