"""The checks, in the order of the output: from the API server and the scheduler to the GPUs.

A check is a function with the decorator ``check``, and is shown where it stands.
"""

from collections.abc import Container, Iterable
from types import ModuleType
from typing import Any, Final

from gpushare.cli.doctor.checks import agents, api_server, extender, gpus, nodes, scheduler
from gpushare.cli.doctor.installation import Installation
from gpushare.cli.doctor.verdict import Check, CheckFinding, Status


def _checks(*modules: ModuleType) -> tuple[Check[Installation], ...]:
    return tuple(each for module in modules for each in vars(module).values() if isinstance(each, Check))


OF_NODES: Final = _checks(nodes, agents, gpus)
"""Those that one node alone can fail."""
CHECKS: Final = (*_checks(api_server, scheduler, extender), *OF_NODES)


def examine(seen: Installation) -> list[CheckFinding]:
    """The verdicts of all checks."""
    return [CheckFinding(check, check.run(seen)) for check in CHECKS]


def is_healthy(findings: Iterable[CheckFinding], *, excused: Container[Check[Any]] = ()) -> bool:
    """Whether no check has failed but those excused, and one has a result besides the version of Kubernetes.

    Warnings and other unknown results do not count.
    """
    seen = [(each.check, each.verdict.status) for each in findings]
    failed = any(status is Status.FAILED and check not in excused for check, status in seen)
    return not failed and any(
        status is not Status.UNKNOWN and check is not api_server.api_server for check, status in seen
    )
