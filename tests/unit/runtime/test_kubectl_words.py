import pytest

from gpushare.runtime.kubectl_words import rearranged


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("top pod -n a", "top pod -n a"),
        ("-n a top pod", "top pod -n a"),
        ("-na top pod", "top pod -na"),
        ("--namespace=a --context x top pod p", "top pod p --namespace=a --context x"),
        ("-A limits", "limits -A"),
        ("--as ann --as-group g explain p", "explain p --as ann --as-group g"),
        ("--context x top pod p --context y", "top pod p --context x --context y"),
        ("help", "--help"),
        ("help top pod", "top pod --help"),
        ("-n a help top", "top --help"),
        ("--version", "--version"),
        ("--node n limits", "--node n limits"),
        ("", ""),
        ("-n a", "-n a"),
        ("-n", "-n"),
    ],
)
def test_flags_of_kubectl_stand_anywhere(words: str, expected: str) -> None:
    assert rearranged(words.split()) == expected.split()
