"""What the verification of all scenarios shares.

What belongs here: asking the inventory. What does not: what a role must have done.
"""

from collections.abc import Callable

import pytest
import testinfra
from testinfra.host import Host
from testinfra.utils.ansible_runner import AnsibleRunner


@pytest.fixture(scope="session")
def names_of(pytestconfig: pytest.Config) -> Callable[[str], list[str]]:
    """The names of a group's hosts: a verification of no hosts would find no fault."""
    runner = AnsibleRunner.get_runner(pytestconfig.getoption("ansible_inventory"))

    def names(group: str) -> list[str]:
        return sorted(runner.get_hosts(group))

    return names


@pytest.fixture(scope="session")
def one(pytestconfig: pytest.Config) -> Callable[[str], Host]:
    """A host by its name, for what is true of that one only."""
    inventory = pytestconfig.getoption("ansible_inventory")

    def host(name: str) -> Host:
        return testinfra.get_host(f"ansible://{name}", ansible_inventory=inventory)

    return host
