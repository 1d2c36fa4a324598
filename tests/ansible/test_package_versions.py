"""Versions in settings and in lists of repositories."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.package_versions import (
    chosen,
    is_version,
    kernel_flavours,
    left_behind,
    of_branch,
    offered,
    pins,
    to_install,
    upstream,
)

MADISON = """\
 docker-ce | 5:19.03.15~3-0~debian-buster | https://example.org/debian buster/stable amd64 Packages
 docker-ce | 5:19.03.5~3-0~debian-buster | https://example.org/debian buster/stable amd64 Packages
docker-ce-cli | 5:19.03.5~3-0~debian-buster | https://example.org/debian buster/stable amd64 Packages
docker-ce-cli | 5:19.03.5~3-0~debian-buster | https://example.org/mirror buster/stable amd64 Packages
"""


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("580.65.06-1", "580.65.06"),
        ("580.65.06-0ubuntu0.24.04.1", "580.65.06"),
        ("5:19.03.5~3-0~debian-buster", "19.03.5"),
        ("5:28.3.3-1~debian.12~bookworm", "28.3.3"),
        ("1.6.20~ds1-1+deb12u3", "1.6.20"),
        ("580.65.06-1", "580.65.06-1"),
        ("580.65.06", "580.65.06"),
    ],
)
def test_epoch_and_revision_are_optional(found: str, wanted: str) -> None:
    assert is_version(found, wanted)
    assert upstream(found) == upstream(wanted)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("5:19.03.15~3-0", "19.03.1"),
        ("1580.65.06-1", "580.65.06"),
        ("580.65.061-1", "580.65.06"),
        ("19x03", "19.03"),
    ],
)
def test_a_similar_version_is_another_one(found: str, wanted: str) -> None:
    assert not is_version(found, wanted)


def test_a_listing_has_each_version_of_each_package_once() -> None:
    assert offered(MADISON) == {
        "docker-ce": ["5:19.03.15~3-0~debian-buster", "5:19.03.5~3-0~debian-buster"],
        "docker-ce-cli": ["5:19.03.5~3-0~debian-buster"],
    }


def test_a_pin_is_the_full_version_that_the_repository_has() -> None:
    assert pins(["docker-ce", "docker-ce-cli"], "19.03.5", MADISON) == {
        "docker-ce": "5:19.03.5~3-0~debian-buster",
        "docker-ce-cli": "5:19.03.5~3-0~debian-buster",
    }


def test_without_a_version_the_newest_is_used() -> None:
    assert pins(["docker-ce"], "", MADISON) == {"docker-ce": "5:19.03.15~3-0~debian-buster"}


def test_an_unavailable_version_has_no_pin() -> None:
    assert pins(["docker-ce", "docker-ce-cli"], "19.03.15", MADISON) == {
        "docker-ce": "5:19.03.15~3-0~debian-buster"
    }
    assert pins(["absent"], "", MADISON) == {}


def test_only_missing_packages_and_other_versions_are_installed() -> None:
    facts: dict[str, list[dict[str, Any]]] = {
        "right": [{"version": "5:19.03.5~3-0~debian-buster"}],
        "wrong": [{"version": "5:19.03.4~3-0~debian-buster"}],
        "rpm": [{"version": "19.03.5", "release": "3.el9", "epoch": 3}],
    }
    assert to_install(["right", "wrong", "rpm", "absent"], "19.03.5", facts) == ["wrong", "absent"]
    assert to_install(["right", "wrong", "absent"], "", facts) == ["absent"]


def test_parts_of_a_family_at_another_version_are_left_behind() -> None:
    facts = {
        "nvidia-driver": [{"version": "535.183.01-1"}],
        "nvidia-smi": [{"version": "580.65.06-1"}],
        "nvidia-container-toolkit": [{"version": "1.17.8-1"}],
        "libc6": [{"version": "535.0-1"}],
    }
    assert left_behind(facts, "nvidia", r"\d{3}\.\d+(\.\d+)?", "535.183.01") == ["nvidia-smi"]


@pytest.mark.parametrize(
    ("wanted", "installed", "expected"),
    [
        ("19.03.15", {}, ["docker-ce"]),
        ("19.03.5", {}, ["docker-ce-cli"]),
        ("28.0", {"docker-ce": [{"version": "5:28.0-1"}]}, ["docker-ce"]),
        ("28.0", {}, ["docker-ce-cli"]),
    ],
)
def test_the_first_name_that_is_there_at_the_version_is_chosen(
    wanted: str, installed: dict[str, Any], expected: list[str]
) -> None:
    assert chosen([["docker-ce-cli", "docker-ce"]] * 2, wanted, MADISON, installed) == expected


def test_kernels_that_updates_install_are_those_of_meta_packages() -> None:
    metas = ["linux-image-amd64", "linux-image-generic-hwe-24.04", "linux-image-cloud-amd64"]
    others = [
        "linux-image-6.1.0-50-amd64",
        "linux-image-amd64-dbg",
        "linux-image-amd64-signed-template",
        "linux-image-extra-virtual",
        "linux-image-unsigned-6.8.0-101-generic",
        "linux-headers-amd64",
    ]
    assert kernel_flavours([*metas, *others]) == ["amd64", "cloud-amd64", "generic-hwe-24.04"]


def test_a_package_of_the_branch_is_taken_if_none_has_the_version() -> None:
    listing = "x | 580.65.06-1 |\nx | 535.171.04-1~deb12u1 |\nx | 535.161.07-1 |"
    assert of_branch(listing, "x", "580.65.06") == "580.65.06-1"
    assert of_branch(listing, "x", "535.261.03") == "535.171.04-1~deb12u1"
    assert of_branch(listing, "x", "550.90.07") == ""
