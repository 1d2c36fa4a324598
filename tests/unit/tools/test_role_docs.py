"""Errors in the specification of a role."""

import sys
from pathlib import Path

import pytest

from tools import role_docs


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "No such file or directory"),
        ("argument_specs: [", "expected the node content"),
        ("options: {}", "'argument_specs' is missing"),
        ("argument_specs: {main: {}}", "'short_description' is missing"),
    ],
)
def test_a_bad_specification_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, problem: str
) -> None:
    (tmp_path / "meta").mkdir()
    specs = tmp_path / "meta/argument_specs.yml"
    if text is not None:
        specs.write_text(text)
    monkeypatch.setattr(role_docs, "roles", lambda: [tmp_path])
    monkeypatch.setattr(sys, "argv", ["role_docs"])
    with pytest.raises(SystemExit) as ended:
        role_docs.main()
    assert str(ended.value.code).startswith(f"role_docs: {specs}: ")
    assert problem in str(ended.value.code)
    assert not (tmp_path / "README.md").exists()
