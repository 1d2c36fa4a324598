"""The lists of mutants are valid; how their runs are judged."""

from pathlib import Path

import pytest

from tools import mutants
from tools.mutants import ROOT, Judgement, Mutant, MutantOutcome, MutantRun, MutantsError

FOLDERS = ("unit", "property", "process", "isolation", "components", "ansible")
MUTANT = Mutant(
    "a", "b.py", "x <= y", "x < y", "an exact fit is rejected", ("tests/c", "tests/test_d.py::test_e")
)
TABLE = '[a]\nfile = "b.py"\ntext = "x <= y"\nreplacement = "x < y"\nwhy = "because"\ntests = ["tests/c"]\n'
OTHER = Mutant("other", "b.py", "x", "y", "because", ("tests/other",))
FAILED = "FAILED tests/c/test_f.py::test_g[1-2] - assert 1 == 2\nERROR tests/c/test_h.py\n1 failed, 1 error\n"


@pytest.mark.parametrize("mutant", mutants.listed(), ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_and_names_tests_that_exist(mutant: Mutant) -> None:
    mutants.mutated(mutant, (ROOT / mutant.file).read_text())
    for test in mutant.tests:
        path, _, function = test.partition("::")
        assert path.startswith(tuple(f"tests/{folder}/" for folder in FOLDERS))
        assert (ROOT / path).is_file()
        assert f"def {function}" in (ROOT / path).read_text()


def test_a_list_has_one_table_for_each_mutant() -> None:
    (mutant,) = mutants.parse(TABLE)
    assert mutant == Mutant("a", "b.py", "x <= y", "x < y", "because", ("tests/c",))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[a", "not TOML"),
        (TABLE.replace("why", "reason"), "mutant a needs exactly file, replacement, tests, text, why"),
        (TABLE.replace('["tests/c"]', "[]"), "none of them empty"),
    ],
)
def test_an_invalid_list_is_an_error_with_the_name_of_the_file(
    tmp_path: Path, content: str, problem: str
) -> None:
    path = tmp_path / "mutants.toml"
    path.write_text(content)
    with pytest.raises(MutantsError, match=f"mutants.toml: .*{problem}"):
        mutants.listed([path])


def test_a_name_is_in_one_list_only(tmp_path: Path) -> None:
    path = tmp_path / "mutants.toml"
    path.write_text(TABLE)
    with pytest.raises(MutantsError, match="another mutant has the name a"):
        mutants.listed([path, path])


def test_the_command_line_selects_by_name() -> None:
    assert mutants.select([MUTANT, OTHER], []) == [MUTANT, OTHER]
    assert mutants.select([MUTANT, OTHER], ["other"]) == [OTHER]
    with pytest.raises(MutantsError, match="unknown mutant nothing"):
        mutants.select([MUTANT], ["a", "nothing"])


def test_the_text_is_replaced() -> None:
    assert mutants.mutated(MUTANT, "if x <= y:") == "if x < y:"


@pytest.mark.parametrize("content", ["", "x <= y and x <= y"])
def test_a_text_that_does_not_occur_once_is_an_error(content: str) -> None:
    with pytest.raises(MutantsError, match=r"occurs [02] times in b\.py"):
        mutants.mutated(MUTANT, content)


def test_a_replacement_that_changes_nothing_is_an_error() -> None:
    with pytest.raises(MutantsError, match="equals"):
        mutants.mutated(Mutant("a", "b.py", "x", "x", "", ()), "x")


@pytest.mark.parametrize(
    ("run", "verdict", "detail"),
    [
        (MutantRun(0, "1 passed"), Judgement.SURVIVED, "an exact fit is rejected"),
        (MutantRun(1, FAILED), Judgement.KILLED, "tests/c/test_f.py::test_g[1-2]"),
        (
            MutantRun(2, "ERROR tests/c/test_h.py - ImportError"),
            Judgement.BROKEN,
            "status 2: tests/c/test_h.py",
        ),
        (MutantRun(5, "no tests ran"), Judgement.BROKEN, "status 5: no test ran"),
        (MutantRun(None, ""), Judgement.BROKEN, "did not end in time"),
    ],
)
def test_only_a_test_that_fails_kills_a_mutant(run: MutantRun, verdict: Judgement, detail: str) -> None:
    outcome = mutants.judged(MUTANT, run)
    assert outcome.verdict is verdict
    assert outcome.detail.endswith(detail)


def test_mutants_whose_tests_fail_without_a_change_have_no_result() -> None:
    (outcome,) = mutants.without_result([MUTANT, OTHER], MutantRun(1, FAILED))
    assert outcome == MutantOutcome(
        MUTANT, Judgement.BROKEN, "fails without a change: tests/c/test_f.py::test_g[1-2]"
    )


@pytest.mark.parametrize("test", ["tests/test_d.py::test_e", "tests/test_d.py::test_e[1]"])
def test_tests_are_recognised_by_function(test: str) -> None:
    assert mutants.without_result([MUTANT], MutantRun(1, f"FAILED {test}"))


def test_tests_of_another_function_do_not_count() -> None:
    assert not mutants.without_result([MUTANT], MutantRun(1, "FAILED tests/test_d.py::test_e_too"))


@pytest.mark.parametrize("run", [MutantRun(2, "ERROR tests/c/test_h.py"), MutantRun(None, "")])
def test_without_a_complete_first_run_no_mutant_has_a_result(run: MutantRun) -> None:
    outcomes = mutants.without_result([MUTANT, OTHER], run)
    assert [each.verdict for each in outcomes] == [Judgement.BROKEN, Judgement.BROKEN]


def test_a_first_run_without_failures_breaks_no_mutant() -> None:
    assert mutants.without_result([MUTANT], MutantRun(0, "1 passed")) == []


def test_the_summary_names_mutants_that_were_not_killed() -> None:
    outcomes = [
        MutantOutcome(MUTANT, Judgement.KILLED, "test"),
        MutantOutcome(OTHER, Judgement.SURVIVED, "because"),
    ]
    assert mutants.summary(outcomes, 12.3) == [
        "mutants: SURVIVED other (b.py): because",
        "mutants: 2 in 12 s: 1 killed, 1 survived, 0 broken",
    ]
