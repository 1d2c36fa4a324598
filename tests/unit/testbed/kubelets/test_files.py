"""The configuration of containerd, kubelet, CNI and NVIDIA's toolkit."""

import json
import tomllib
from pathlib import Path
from typing import Any

from testbed.kubelets import files
from testbed.kubelets.spec import KubeletSpec, Subnet

SUBNET = Subnet(7)
CNI, CA = Path("/usr/lib/cni"), Path("/bed/pki/ca.crt")
PROGRAMS = {"nvidia-container-runtime": Path("/bin/nvidia-container-runtime")}


def texts(spec: KubeletSpec) -> dict[str, str]:
    return files.texts(spec, SUBNET, PROGRAMS, CNI, CA)


def runtime(spec: KubeletSpec) -> dict[str, Any]:
    document = tomllib.loads(texts(spec)[files.CONTAINERD_CONFIG])
    plugin: dict[str, Any] = document["plugins"]["io.containerd.cri.v1.runtime"]
    return plugin


def test_containerd_runs_runc_by_default_with_cdi_on() -> None:
    plugin = runtime(KubeletSpec("a"))
    assert plugin["containerd"]["default_runtime_name"] == "runc"
    assert plugin["containerd"]["runtimes"]["runc"]["options"]["BinaryName"] == "runc"
    assert plugin["enable_cdi"] is True
    assert plugin["cdi_spec_dirs"] == ["/etc/cdi", "/var/run/cdi"]
    assert plugin["cni"]["bin_dirs"] == ["/usr/lib/cni"]


def test_the_nvidia_runtime_becomes_the_default() -> None:
    plugin = runtime(KubeletSpec("a", runtime="nvidia"))
    assert plugin["containerd"]["default_runtime_name"] == "nvidia"
    options = plugin["containerd"]["runtimes"]["nvidia"]["options"]
    assert options["BinaryName"] == "/bin/nvidia-container-runtime"


def test_the_toolkit_believes_volume_mounts_and_not_the_pods_own_variable() -> None:
    document = tomllib.loads(files.nvidia())
    assert document["accept-nvidia-visible-devices-as-volume-mounts"] is True
    assert document["accept-nvidia-visible-devices-envvar-when-unprivileged"] is False
    assert document["nvidia-container-runtime"]["mode"] == "cdi"


def test_fields_of_the_kubelet_are_replaced_and_the_others_stay() -> None:
    spec = KubeletSpec("a", config={"topologyManagerPolicy": "restricted", "failSwapOn": True})
    document = json.loads(texts(spec)[files.KUBELET_CONFIG])
    assert document["topologyManagerPolicy"] == "restricted"
    assert document["failSwapOn"] is True
    assert document["failCgroupV1"] is False
    assert document["authentication"]["x509"] == {"clientCAFile": "/bed/pki/ca.crt"}


def test_pods_get_addresses_of_the_nodes_subnet() -> None:
    plugin = json.loads(files.cni_conflist(SUBNET))["plugins"][0]
    assert plugin["ipam"]["ranges"] == [
        [{"subnet": "198.19.7.0/24", "rangeStart": "198.19.7.10", "gateway": "198.19.7.3"}]
    ]


def test_the_files_of_the_test_win() -> None:
    spec = KubeletSpec("a", files={files.NVIDIA_CONFIG: "mine", "/etc/cdi/x.json": "{}"})
    assert texts(spec)[files.NVIDIA_CONFIG] == "mine"
    assert texts(spec)["/etc/cdi/x.json"] == "{}"
