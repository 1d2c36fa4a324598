"""``runbook``: its flags. What it needs is imported when it runs."""

from typing import Final

import click

from gpushare.errors import ConfigError
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare runbook
  kubectl gpushare runbook GpuShareExtenderDown"""


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    del context, parameter
    from gpushare.monitoring.runbooks import runbooks

    return [name for name in runbooks() if name.lower().startswith(incomplete.lower())]


@click.command("runbook", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.argument("alert", required=False, shell_complete=_names)
def runbook(*, alert: str | None) -> None:
    """Print the runbook of ALERT: what it means, what follows, where to look and what to do.

    Without ALERT it lists all alerts. Needs no cluster.
    """
    from gpushare.cli.lib.text_table import TextTable, text_of
    from gpushare.monitoring.alerts import ALERTS
    from gpushare.monitoring.runbooks import meaning_of, runbooks

    severities = {each.name: each.severity for each in ALERTS}
    if alert is None:
        rows = tuple((name, severities[name], meaning_of(text)) for name, text in runbooks().items())
        click.echo(text_of(TextTable(("ALERT", "SEVERITY", "MEANING"), rows)), nl=False)
        return
    name = _known(alert, list(runbooks()))
    click.echo(f"{name} ({severities[name]})\n\n{runbooks()[name]}")


def _known(alert: str, names: list[str]) -> str:
    """The name as it is written. Raises ConfigError for an unknown one, with the most similar one."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in names}
    if found := by_lower.get(alert.lower()):
        return found
    similar = get_close_matches(alert.lower(), by_lower, n=1, cutoff=0.5)
    hint = f"did you mean {by_lower[similar[0]]}?" if similar else "`kubectl gpushare runbook` lists them"
    raise ConfigError(f"there is no alert {alert}; {hint}")
