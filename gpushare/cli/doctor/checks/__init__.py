"""The checks, in the order of the output: from the API server and the scheduler to the GPUs.

A check is a function with the decorator ``check``, and is shown where it stands.
"""

from typing import Final

from gpushare.cli.doctor.checks import agents, api_server, extender, gpus, nodes, scheduler
from gpushare.cli.doctor.installation import Installation
from gpushare.cli.doctor.verdict import Check, CheckFinding, Status

CHECKS: Final[tuple[Check[Installation], ...]] = tuple(
    each
    for module in (api_server, scheduler, extender, nodes, agents, gpus)
    for each in vars(module).values()
    if isinstance(each, Check)
)


def examine(seen: Installation) -> list[CheckFinding]:
    """The verdicts of all checks."""
    return [CheckFinding(check, check.run(seen)) for check in CHECKS]


def is_healthy(findings: list[CheckFinding]) -> bool:
    """Whether no check has failed; warnings and unknown results do not count."""
    return all(each.verdict.status is not Status.FAILED for each in findings)
