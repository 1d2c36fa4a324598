"""Stub packages of NVIDIA and of container runtimes: real packages with empty programs.

What belongs here: their names, versions, relations and files. What does not: building them
(``testbed.hosts.repository``).
"""

from testbed.hosts.stubs.driver import driver_packages
from testbed.hosts.stubs.package import Package
from testbed.hosts.stubs.runtime import runtime_packages

__all__ = ["Package", "all_packages"]


def all_packages(kernel: str) -> list[Package]:
    """Return all stubs; ``kernel`` is the kernel release of the hosts (``uname -r``)."""
    return [*driver_packages(kernel), *runtime_packages()]
