"""The modules of `gpushare/` that the Ansible collection holds copies of."""

from tools import collection_modules


def test_the_copies_of_modules_are_up_to_date() -> None:
    copies = collection_modules.copies()
    stale = [str(path) for path, text in copies.items() if not path.exists() or path.read_text() != text]
    others = set(collection_modules.COPIES.rglob("*.py")) - copies.keys()
    assert (stale, others) == ([], set()), "run `make setup`"
