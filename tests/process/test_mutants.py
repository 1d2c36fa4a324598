"""Mutants run in copies of a checkout."""

import subprocess
from pathlib import Path

import pytest

from tools import mutants
from tools.mutants import Copies, Judgement, Mutant


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a module, a test of it, and a file that git ignores."""
    root = tmp_path / "checkout"
    root.mkdir()
    subprocess.run(["git", "init", "-q", root], check=True)  # noqa: S603, S607
    (root / ".gitignore").write_text("ignored.py\n")
    (root / "conftest.py").write_text(
        "from hypothesis import settings\n\nsettings.register_profile('check')\n"
    )
    (root / "b.py").write_text("def fits(x: int, y: int) -> bool:\n    return x <= y\n")
    (root / "test_b.py").write_text("from b import fits\n\n\ndef test_exact_fit():\n    assert fits(1, 1)\n")
    (root / "test_none.py").write_text("import b\n\n\ndef test_module():\n    assert b.fits\n")
    (root / "ignored.py").write_text("")
    (root / "linked").symlink_to("b.py")
    monkeypatch.setattr(mutants, "ROOT", root)
    return root


def test_mutants_run_in_copies_of_the_checkout(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in checkout.glob("*.py")}
    chosen = [
        Mutant("killed", "b.py", "x <= y", "x < y", "why", ("test_b.py",)),
        Mutant("survives", "b.py", "x <= y", "x < y", "why", ("test_none.py",)),
        Mutant("absent", "b.py", "x == y", "x < y", "why", ("test_b.py",)),
        Mutant("invalid", "b.py", "x <= y", "x <=", "why", ("test_b.py",)),
    ]
    outcomes = mutants.run_all(chosen, Copies(tmp_path / "copies", 2))
    assert [each.verdict for each in outcomes] == [
        Judgement.KILLED,
        Judgement.SURVIVED,
        Judgement.BROKEN,
        Judgement.BROKEN,
    ]
    assert outcomes[0].detail == "test_b.py::test_exact_fit"
    assert {path: path.read_bytes() for path in checkout.glob("*.py")} == before
    assert "killed   killed" in capsys.readouterr().out


def test_a_copy_has_links_and_no_ignored_files(checkout: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    mutants.copy_checkout(copy)
    assert sorted(path.name for path in copy.iterdir()) == [
        ".gitignore",
        "b.py",
        "conftest.py",
        "linked",
        "test_b.py",
        "test_none.py",
    ]
    assert (copy / "linked").is_symlink()
    assert (copy / "b.py").stat().st_mtime == (checkout / "b.py").stat().st_mtime
