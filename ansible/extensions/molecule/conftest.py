"""Fixtures of the verification of all scenarios.

What belongs here: access to the inventory. What does not: checks of a role's results.
"""

from collections.abc import Callable

import pytest
import testinfra
from testinfra.host import Host
from testinfra.utils.ansible_runner import AnsibleRunner


@pytest.fixture(scope="session")
def names_of(pytestconfig: pytest.Config) -> Callable[[str], list[str]]:
    """The names of the hosts of a group; without hosts, a verification would pass."""
    runner = AnsibleRunner.get_runner(pytestconfig.getoption("ansible_inventory"))

    def names(group: str) -> list[str]:
        return sorted(runner.get_hosts(group))

    return names


@pytest.fixture(scope="session")
def one(pytestconfig: pytest.Config) -> Callable[[str], Host]:
    """A host by its name, for checks of that host only."""
    inventory = pytestconfig.getoption("ansible_inventory")

    def host(name: str) -> Host:
        return testinfra.get_host(f"ansible://{name}", ansible_inventory=inventory)

    return host
