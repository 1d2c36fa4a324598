import re
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from gpushare.cli.lib.tabwriter import PADDING, align

CELL = st.text(alphabet="ab-0µ", min_size=1, max_size=6)
TABLE = st.lists(st.lists(CELL, min_size=1, max_size=4) | st.just([""]), max_size=8)


def test_a_text_without_tabs_stays_as_it_is() -> None:
    assert align("plain\n\n  text \n") == "plain\n\n  text \n"


def test_a_cell_is_padded_to_its_column_and_two_blanks() -> None:
    assert align("NAME\tIP\nn\t1\n") == "NAME  IP\nn     1\n"


def test_only_a_cell_that_ends_in_a_tab_is_padded() -> None:
    assert align("a\tb\t\nlonger\tc\n") == "a       b  \nlonger  c\n"


def test_a_line_without_the_column_ends_its_block() -> None:
    assert align("a\t1\n\nlonger\t2\n") == "a  1\n\nlonger  2\n"


def test_a_later_column_has_blocks_of_its_own() -> None:
    assert align("a\tbbbb\tx\na\tlast\na\tc\ty\n") == "a  bbbb  x\na  last\na  c  y\n"


def test_an_empty_column_is_two_blanks_wide() -> None:
    assert align("a\t\tb\n") == "a    b\n"


@given(TABLE)
def test_nothing_but_blanks_is_added(table: list[list[str]]) -> None:
    text = "\n".join("\t".join(cells) for cells in table)
    assert re.sub(r"[ \t]", "", align(text)) == re.sub(r"[ \t]", "", text)


@given(TABLE)
def test_the_cells_of_a_column_start_two_blanks_after_the_widest(
    table: list[list[str]],
) -> None:
    lines = align("\n".join("\t".join(cells) for cells in table)).split("\n")
    starts = [[match.start() for match in re.finditer(r"\S+", line)] for line in lines]
    for column in range(3):
        rows = zip(table, starts, strict=False)
        for has_cell, block in groupby(rows, key=lambda row: len(row[0]) > column + 1):
            if has_cell:
                rows_of_block = list(block)
                ends = [at[column] + len(cells[column]) for cells, at in rows_of_block]
                assert {at[column + 1] for _, at in rows_of_block} == {max(ends) + PADDING}
