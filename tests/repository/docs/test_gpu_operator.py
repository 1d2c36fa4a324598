"""The YAML of the pages on NVIDIA's plugin and of the quick start is what the programs accept and need."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.manifests import everything
from components.stack import load
from gpushare.model.modes import mode_of
from tests.support.builders.stacks import DIGEST
from tests.support.pages import Written, steps

HOW_TO = Path(__file__).parents[3] / "docs/how-to"
MODES = ("share", "cgpu", "core_mem", "mps", "default", "topology")


def blocks(page: str, beginning: str) -> Any:
    """The YAML block of a page that begins so."""
    found = [each.text for each in steps((HOW_TO / page).read_text()) if isinstance(each, Written)]
    (block,) = [each for each in found if each.startswith(beginning)]
    return yaml.safe_load(block)


def objects_of(stack: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of a stack, with images by digest in place of the file."""
    names = ("extender", "device-plugin", "exporter", "isolation", "metrics-api", "cli")
    config = {key.removeprefix("gpushare:"): value for key, value in stack["config"].items()}
    return everything(load({**config, "images": dict.fromkeys(names, DIGEST)}))


def kinds(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def test_the_quick_start_needs_no_access_to_the_control_plane() -> None:
    objects = objects_of(blocks("quick-start.md", "# Pulumi.quick-start.yaml"))
    (extender,) = [each for name, each in kinds(objects, "Deployment").items() if "extender" in name]
    spec = extender["spec"]["template"]["spec"]
    assert {each["name"] for each in spec["containers"]} >= {"kube-scheduler"}
    assert "hostNetwork" not in spec
    assert "gpushare-installer" not in kinds(objects, "Job")
    # Pods need not name the scheduler.
    assert kinds(objects, "MutatingAdmissionPolicy")
    assert kinds(objects, "DaemonSet").keys() == {
        "gpushare-device-plugin-ds",
        "cgpu-installer",
        "gpushare-exporter",
    }


def test_agent_and_exporter_are_clients_of_the_operator() -> None:
    quick = blocks("quick-start.md", "# Pulumi.quick-start.yaml")["config"]
    addition = blocks("gpu-operator.md", "config:\n  gpushare:devicePlugins")["config"]
    found = kinds(objects_of({"config": {**quick, **addition}}), "DaemonSet")
    agent = found["gpushare-device-plugin-ds"]["spec"]["template"]["spec"]
    assert agent["nodeSelector"] == {"cgpu": "true", "nvidia.com/gpu.deploy.client": "true"}
    exporter = found["gpushare-exporter"]["spec"]["template"]["spec"]
    assert "nvidia.com/gpu.deploy.client" in str(exporter["affinity"])
    # From 25.10 on, its runtime is not the default of the nodes.
    assert agent["runtimeClassName"] == exporter["runtimeClassName"] == "nvidia"


def test_both_pages_leave_the_same_to_the_operator() -> None:
    settings = blocks("gpu-operator.md", "# inventories/mine/group_vars/gpu_nodes/operator.yml")
    assert settings == blocks("install.md", "nvidia_driver_state")


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"gpushare": "true", "cgpu": "true"},
        {"gpushare": "false", "cgpu": "false"},
        {"cgpu": "true"},
        {"gpushare": "true"},
        *({"ack.node.gpu.schedule": mode} for mode in MODES),
    ],
    ids=str,
)
def test_the_affinity_of_a_plain_plugin_excludes_the_nodes_that_share(labels: dict[str, str]) -> None:
    pod = blocks("gpu-operator.md", "# not-shared.yaml")["spec"]["template"]["spec"]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert {each["operator"] for each in term["matchExpressions"]} == {"NotIn"}
    runs = all(labels.get(each["key"]) not in each["values"] for each in term["matchExpressions"])
    assert runs == (not labels or mode_of(labels)[1] is not None)
