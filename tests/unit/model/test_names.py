import pytest

from gpushare.model.names import is_object_name


@pytest.mark.parametrize(
    "text", ["n1", "10.0.0.1", "a--b", "ip-10-0-0-1.eu-west-1.compute.internal", "a" * 253]
)
def test_names_that_objects_can_have(text: str) -> None:
    assert is_object_name(text)


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "a..b", ".a", "a.", "-a", "a-", "a.-b", "a/b", "A", "é", "１", "a b", "a\n", "a" * 254],
)
def test_others(text: str) -> None:
    assert not is_object_name(text)
