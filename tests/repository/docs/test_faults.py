"""The fault table has a row for each test that is marked as the proof of one, and no others."""

from pathlib import Path

from tools.faults import HEAD, PAGE, marked
from tools.plots import table

ROWS = table(PAGE.read_text(), "component", "fault", "over-commits", "lost reservations", "test")


def test_every_marked_test_has_a_row_and_every_row_a_marked_test() -> None:
    """After a change of a marker, `make test-faults` runs the tests and writes the rows."""
    assert {(each["component"], each["fault"], each["test"].strip("`")) for each in ROWS} == set(marked())


def test_every_row_is_without_over_commits_and_lost_reservations() -> None:
    assert {(each["over-commits"], each["lost reservations"]) for each in ROWS} == {("0", "0")}


def test_no_two_rows_have_the_same_fault_and_component() -> None:
    found = [(each["fault"], each["component"]) for each in ROWS]
    assert len(found) == len(set(found))


def test_the_page_explains_its_columns() -> None:
    assert PAGE.read_text().startswith(HEAD.partition("{commit}")[0])


def test_markers_are_found_in_decorators_and_in_parameters(tmp_path: Path) -> None:
    folder = tmp_path / "tests/integration"
    folder.mkdir(parents=True)
    (folder / "test_x.py").write_text(
        """
@fault("killed", component="leader")
async def test_one() -> None: ...

@pytest.mark.parametrize("n", [pytest.param(1, marks=fault("ahead", component="clock"))])
async def test_two(n: int) -> None: ...
"""
    )
    assert set(marked(tmp_path)) == {
        ("leader", "killed", "tests/integration/test_x.py"),
        ("clock", "ahead", "tests/integration/test_x.py"),
    }
