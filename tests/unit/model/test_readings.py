import pytest

from gpushare.model.readings import UNCOUNTED_BYTES, is_clearly_uncounted

GIB = 1 << 30


@pytest.mark.parametrize(
    ("uncounted", "limit", "clearly"),
    [
        (UNCOUNTED_BYTES, GIB, False),
        (UNCOUNTED_BYTES + 1, GIB, True),
        (UNCOUNTED_BYTES + 1, 4 * GIB, False),
        (GIB, 4 * GIB, False),
        (GIB + 1, 4 * GIB, True),
    ],
)
def test_more_than_half_a_gib_and_a_quarter_of_the_limit(uncounted: int, limit: int, clearly: bool) -> None:  # noqa: FBT001
    assert is_clearly_uncounted(uncounted, limit) == clearly
