"""What may be said of a node, and that no two nodes get in each other's way."""

from pathlib import Path

import pytest

from gpushare.errors import ConfigError
from testbed.kubelets.spec import KubeletSpec, Place, Subnet

DATA = Path("/data")
A, B = Path("/beds/a"), Path("/beds/b")


@pytest.mark.parametrize("name", ["", "Upper", "a_b", "-a", "a" * 41])
def test_a_name_that_kubernetes_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="node name"):
        KubeletSpec(name)


def test_an_unknown_runtime_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'crun' is unknown: use 'runc' or 'nvidia'"):
        KubeletSpec("a", runtime="crun")


@pytest.mark.parametrize("path", ["/run/x", "/var/run/cdi/x", "/root/x", "etc/x", "/etc/../root/x"])
def test_a_file_that_is_not_on_the_nodes_disk_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="not on the node's disk"):
        KubeletSpec("a", files={path: ""})


def test_the_nvidia_toolkit_is_built_only_where_it_is_used() -> None:
    assert not any("nvidia" in tool for tool in KubeletSpec("a").tools)
    assert "nvidia-container-runtime" in KubeletSpec("a", runtime="nvidia").tools


def test_kube_proxy_is_built_only_where_services_are_asked_for() -> None:
    assert "kube-proxy" not in KubeletSpec("a").tools
    assert "kube-proxy" in KubeletSpec("a", services=True).tools


def test_nodes_of_one_name_in_two_beds_share_nothing() -> None:
    ours, theirs = Place("gpu-a", A, DATA / "a"), Place("gpu-a", B, DATA / "b")
    assert ours.group != theirs.group
    assert ours.device != theirs.device
    assert ours.folder != theirs.folder


def test_the_name_of_a_network_device_is_not_too_long_for_the_kernel() -> None:
    assert len(Place("a" * 40, A, DATA).device) <= 15


def test_a_file_of_the_node_lies_on_its_disk() -> None:
    place = Place("gpu-a", A, DATA)
    assert place.on_disk("/var/lib/kubelet") == DATA / "nodes/gpu-a/disk/var/lib/kubelet"


def test_a_subnet_has_different_addresses_for_host_node_and_pods() -> None:
    subnet = Subnet(7)
    addresses = (subnet.host, subnet.node, subnet.gateway, subnet.first_pod)
    assert len(set(addresses)) == 4
    assert all(address.startswith("198.19.7.") for address in addresses)
