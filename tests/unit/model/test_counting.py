import pytest

from gpushare.model.counting import MUCH_BYTES, is_much

GIB = 1 << 30


@pytest.mark.parametrize(
    ("uncounted", "limit", "much"),
    [
        (MUCH_BYTES, GIB, False),
        (MUCH_BYTES + 1, GIB, True),
        (MUCH_BYTES + 1, 4 * GIB, False),
        (GIB, 4 * GIB, False),
        (GIB + 1, 4 * GIB, True),
    ],
)
def test_much_is_half_a_gib_and_a_quarter_of_the_limit(uncounted: int, limit: int, much: bool) -> None:  # noqa: FBT001
    assert is_much(uncounted, limit) == much
