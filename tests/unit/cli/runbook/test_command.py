"""``kubectl gpushare runbook``: the page of the documentation, at a terminal and without a cluster."""

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from gpushare.cli.complete import complete
from gpushare.cli.main import plugin
from gpushare.monitoring.alerts import ALERTS
from gpushare.runtime.program import run


def called(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
        run(plugin, ["runbook", *words])
    return int(str(end.value.code)), out.getvalue(), err.getvalue()


@pytest.mark.parametrize("name", ["GpuShareExtenderDown", "gpushareextenderdown"])
def test_a_runbook_has_its_four_parts_and_no_markdown(name: str) -> None:
    code, out, _ = called(name)
    assert code == 0
    first, _, *lines = out.splitlines()
    assert first == "GpuShareExtenderDown (critical)"
    starts = [
        line.partition(" ")[0] for line in lines if line.startswith(("Meaning.", "What", "Look.", "Do."))
    ]
    assert starts == ["Meaning.", "What", "Look.", "Do."]
    assert "](" not in out
    assert "**" not in out


def test_every_alert_is_listed_with_its_severity_and_meaning() -> None:
    _, out, _ = called()
    rows = [line.split(maxsplit=2) for line in out.splitlines()[1:]]
    assert [(name, severity) for name, severity, _ in rows] == [(each.name, each.severity) for each in ALERTS]
    assert all(meaning.endswith(".") for _, _, meaning in rows)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("GpuShareExtenderDwn", "did you mean GpuShareExtenderDown?"),
        ("42", "`kubectl gpushare runbook` lists them"),
    ],
)
def test_an_unknown_alert_is_an_error_with_a_way_out(name: str, hint: str) -> None:
    assert called(name) == (1, "", f"Error: there is no alert {name}; {hint}\n")


def test_alerts_are_completed() -> None:
    assert complete(plugin, ["runbook", "GpuShareExtender"]).splitlines()[0] == "GpuShareExtenderDown"
