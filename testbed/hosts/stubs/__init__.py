"""Packages that stand for NVIDIA's and the container runtimes': real packages, empty programs.

What belongs here: their names, versions, relations and files. What does not: building them
(``testbed.hosts.repository``).
"""

from testbed.hosts.stubs.driver import driver_packages
from testbed.hosts.stubs.package import Package
from testbed.hosts.stubs.runtime import runtime_packages

__all__ = ["Package", "all_packages"]


def all_packages(kernel: str) -> list[Package]:
    """Return every stub; ``kernel`` is the release of the kernel that hosts run on (``uname -r``)."""
    return [*driver_packages(kernel), *runtime_packages()]
