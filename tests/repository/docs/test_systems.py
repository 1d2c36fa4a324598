"""The page says with which package manager each system was tried, and each has a host in the tests."""

from ansible_collections.gpushare.nodes.plugins.plugin_utils import systems
from tests.support.fakes.systems import REFUSED, SYSTEMS
from tools.role_docs import ROLES

PAGE = ROLES.parents[1] / "docs/how-to/prepare-nodes.md"


def test_each_system_that_gets_packages_has_a_host() -> None:
    installed = {each.name for each in systems.SYSTEMS if each.variables and not each.legacy}
    assert {each.name for each in SYSTEMS} == installed
    assert {each.name for each in systems.SYSTEMS if not each.variables} <= set(REFUSED)


def test_the_page_names_the_package_manager_of_the_host() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    repositories = {each.name: each.repository for each in systems.SYSTEMS}
    for each in SYSTEMS:
        (row,) = [line for line in rows if f"`{repositories[each.name]}`" in line]
        assert row.endswith(f"| {each.plays_on} |")
