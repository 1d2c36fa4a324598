"""Skipped tests as failures, for machines that must run all tests: ``GPUSHARE_REQUIRE_ALL=1``, as in CI.

What belongs here: the accepted skips, each with its reason. What does not: the hooks (``tests/conftest.py``).
"""

from typing import Final, NamedTuple

import pytest

from tests.support import needs


class _Accepted(NamedTuple):
    """Tests whose id begins with ``test``, if the message has ``text``; ``why`` they may be skipped."""

    test: str
    text: str
    why: str


_FOLDERS: Final = "tests/unit/adapters/kubelet/test_folder.py"
_OTHER_PROCESSOR: Final = "an x86_64 processor"
ACCEPTED: Final = (
    _Accepted("tests/integration/test_cgroup_v2.py", _OTHER_PROCESSOR, "user-mode Linux is for x86_64"),
    _Accepted("tests/integration/test_soak.py", _OTHER_PROCESSOR, "user-mode Linux is for x86_64"),
    _Accepted("tests/isolation/test_arm64.py", "for arm64", "arm64 needs no compiler for arm64"),
    _Accepted("tests/integration/isolation/test_cdi.py", "in memory (6.3", "the kernel of Debian 12 is 6.1"),
    _Accepted(
        "tests/ansible/", "no Python 3.12 or later", "a machine without one has ansible-core 2.16 and 2.19"
    ),
    _Accepted(
        "tests/integration/test_ansible_systems.py",
        "need archives of Debian",
        "machines with Ubuntu have no Debian 13, whose apt and dnf those of Ubuntu 26.04 and EL 10 are like",
    ),
    _Accepted("tests/gpu/", "", "the machines of CI have no NVIDIA GPU"),
    _Accepted("tests/e2e/test_install.py", "step failed: ", "the failed command of the page fails the run"),
    _Accepted(_FOLDERS, "root may write everywhere", "nothing is mounted read-only on some machines"),
    _Accepted(_FOLDERS, "the kernel keeps ", "more events than a test can make"),
)


def refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the report of a skipped test into that of a failed one if all tests are required."""
    if report.skipped and needs.all_required() and not hasattr(report, "wasxfail"):
        message = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not any(report.nodeid.startswith(each.test) and each.text in message for each in ACCEPTED):
            report.outcome = "failed"
            report.longrepr = f"{message}\nA skip, but all tests are required: see {__name__}"
