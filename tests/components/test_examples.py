"""The manifests of the ACK documentation request the sums that it shows."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.manifests import everything
from components.stack import load
from gpushare.contract import RESOURCE_MEM
from tests.support.builders.stacks import ROOT, raw_stack

Object = dict[str, Any]
OURS = sorted((ROOT / "examples").glob("*.yaml"))
PUBLISHED = sorted((ROOT / "examples/original").glob("*.yaml"))


def objects(name: str) -> list[Object]:
    return list(yaml.safe_load_all((ROOT / "examples" / f"{name}.yaml").read_text()))


def units(workload: Object) -> int:
    spec = workload["spec"]
    containers = spec["template"]["spec"]["containers"]
    return int(spec["replicas"]) * sum(
        int(each["resources"]["limits"].get(RESOURCE_MEM, 0)) for each in containers
    )


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("notebook", 12),
        ("original/notebook", 12),
        ("app-3g", 8),
        ("app-3g-whole-card", 0),
        ("app-6g", 4),
        ("binpack", 1),
        ("bert", 0),
        ("notebook-whole-card", 0),
        ("original/notebook-whole-card", 0),
    ],
)
def test_the_workloads_request_the_units_of_the_documentation(name: str, total: int) -> None:
    assert sum(units(each) for each in objects(name) if "template" in each["spec"]) == total


@pytest.mark.parametrize("file", [*OURS, *PUBLISHED], ids=lambda file: file.stem)
def test_each_names_its_origin(file: Any) -> None:
    assert "article" in file.read_text().partition("---")[0]


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.stem)
def test_an_example_exposes_nothing_and_has_no_password(file: Path) -> None:
    """The files of the article, which do both, are in ``examples/original`` as they were published."""
    for each in yaml.safe_load_all(file.read_text()):
        assert each["kind"] != "Service" or each["spec"].get("type", "ClusterIP") == "ClusterIP"
        template = each["spec"].get("template", {"spec": {"containers": []}})
        for container in template["spec"]["containers"]:
            written = {env["name"] for env in container.get("env", ()) if "value" in env}
            assert not {name for name in written if re.search("PASSWORD|TOKEN|SECRET", name)}


def test_our_objects_replace_those_of_the_aliyun_pair_by_name() -> None:
    ours = {(each["kind"], each["metadata"]["name"]) for each in everything(load(raw_stack()))}
    theirs = {
        (each["kind"], each["metadata"]["name"])
        for name in ("original/extender", "original/device-plugin")
        for each in objects(name)
    }
    assert theirs <= ours


@pytest.mark.parametrize("name", ["extender", "device-plugin"])
def test_the_selectors_are_those_of_the_aliyun_pair_so_that_objects_can_be_adopted(name: str) -> None:
    # Kubernetes does not allow changes of the selector of a Deployment or DaemonSet.
    (theirs,) = [each for each in objects(f"original/{name}") if each["apiVersion"] == "apps/v1"]
    (ours,) = [
        each
        for each in everything(load(raw_stack()))
        if (each["kind"], each["metadata"]["name"]) == (theirs["kind"], theirs["metadata"]["name"])
    ]
    assert ours["spec"]["selector"] == theirs["spec"]["selector"]
