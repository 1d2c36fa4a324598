"""The Containerfile agrees with the rest of the project."""

import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from release.recipe import SOURCES, services

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Containerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PARTS = re.split(r"^FROM ", TEXT, flags=re.MULTILINE)
STAGES = re.findall(r"^FROM \S+ AS (\S+)$", TEXT, re.MULTILINE)


def stage(name: str) -> str:
    return next(part for part in PARTS if part.partition("\n")[0].endswith(f" AS {name}"))


@pytest.mark.parametrize("name", services(TEXT))
def test_only_images_that_need_files_of_the_node_run_as_root(name: str) -> None:
    assert ("USER 65532:65532" in stage(name)) == (name not in ("device-plugin", "exporter", "isolation"))


@pytest.mark.parametrize("name", services(TEXT))
def test_a_service_describes_itself(name: str) -> None:
    for label in ("title", "description"):
        assert f"org.opencontainers.image.{label}=" in stage(name)
    assert f"org.opencontainers.image.licenses={PROJECT['project']['license']}" in stage("runtime")


@pytest.mark.parametrize("name", services(TEXT))
def test_the_command_of_an_image_is_a_script_of_the_project_or_a_sample(name: str) -> None:
    found = re.search(r'^CMD \["([^"]+)"', stage(name), re.MULTILINE)
    assert found is not None
    sample = ROOT / "samples" / "bin" / found[1]
    assert os.access(sample, os.X_OK) if name == "samples" else found[1] in PROJECT["project"]["scripts"]


def test_the_aliyun_manifest_has_no_lease_and_starts_an_extender_that_binds_without_one() -> None:
    text = (ROOT / "examples/original/extender.yaml").read_text()
    (container,) = next(
        each["spec"]["template"]["spec"]["containers"]
        for each in yaml.safe_load_all(text)
        if each and each["kind"] == "Deployment"
    )
    assert "leases" not in text
    assert not {"command", "args"} & set(container)
    assert 'CMD ["gpushare", "extender", "--allow-without-lease"]' in stage("extender")


def test_images_from_registries_are_named_by_digest() -> None:
    images = re.findall(r"^ARG \w+_IMAGE=(\S+)$", TEXT, re.MULTILINE)
    assert len(images) == 2
    assert all(re.fullmatch(r"docker\.io/\S+:\S+@sha256:[0-9a-f]{64}", image) for image in images)


def test_no_stage_depends_on_one_architecture() -> None:
    assert not re.search(r"amd64|arm64|x86_64|aarch64", TEXT)


def test_secrets_reach_only_discarded_stages() -> None:
    assert [name for name in STAGES if "type=secret" in stage(name)] == ["builder", "dependencies"]
    assert not [name for name in services(TEXT) if f"FROM {name}" in TEXT]


def test_the_build_sees_its_sources_and_nothing_else() -> None:
    lines = (ROOT / ".containerignore").read_text().splitlines()
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(SOURCES)
