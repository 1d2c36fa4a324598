"""The dated names of NVIDIA's packages, and the stubs that follow them."""

import pytest

from testbed.hosts.stubs.driver import of_nvidia
from testbed.hosts.stubs.nvidia_index import names, package_version
from testbed.hosts.stubs.ubuntu_driver import of_ubuntu


@pytest.mark.parametrize(
    ("repository", "driver"),
    [("ubuntu2404", "580.65.06"), ("ubuntu2404", "595.71.05"), ("ubuntu2604", "615.71.09")],
)
def test_the_stubs_of_ubuntu_have_names_of_nvidia_only(repository: str, driver: str) -> None:
    stubs = of_ubuntu(repository, driver)
    assert {each.name for each in stubs} <= names(repository, driver)
    assert {each.version for each in stubs} == {package_version(repository, driver)}


@pytest.mark.parametrize("repository", ["debian12", "debian13"])
def test_the_stubs_of_debian_have_names_of_nvidia_only(repository: str) -> None:
    assert {each.name for each in of_nvidia("580.65.06-1")} <= names(repository, "580.65.06")


def test_from_590_on_names_of_ubuntu_have_no_branch() -> None:
    assert "libnvidia-compute-580" in names("ubuntu2404", "580.65.06")
    assert "libnvidia-compute" in names("ubuntu2404", "590.44.01")
    assert not [name for name in names("ubuntu2404", "590.44.01") if "590" in name]


def test_ubuntu_26_04_has_no_older_branch() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        names("ubuntu2604", "580.65.06")
