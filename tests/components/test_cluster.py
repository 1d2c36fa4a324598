"""The settings are compared with the cluster before anything is created."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from components.cluster import Cluster, advice_on, check_cluster
from components.kubeconfig import chosen, is_content
from components.preflight import read_cluster
from components.stack import load
from gpushare.errors import ApiError, ConfigError
from gpushare.kubescheduler.config import KubernetesVersion
from tests.support.builders.stacks import DIGEST, raw_stack, sidecar
from tests.support.fakes.prepared_api import CLUSTER, LABELLED, NODES, SYSTEM, UID, served

Object = dict[str, Any]
VERSION = KubernetesVersion(1, 36)
CORE = frozenset({"apps/v1"})
OPERATED: Object = {"monitoring": {"exporter": {"image": DIGEST}, "operator": True}}


def error_of(cluster: Cluster, **changes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        check_cluster(load(raw_stack(**changes)), cluster)
    return str(error.value)


def test_another_version_than_that_of_the_cluster_is_an_error() -> None:
    assert error_of(Cluster(KubernetesVersion(1, 34), CORE)) == (
        'kubernetesVersion: 1.36, but the version of the cluster is 1.34; set "1.34", or check kubeconfig '
        "and context"
    )


def test_objects_of_the_prometheus_operator_need_its_api() -> None:
    assert error_of(Cluster(VERSION, CORE), **OPERATED) == (
        "monitoring.operator: true, but the cluster has no monitoring.coreos.com/v1; install the Prometheus "
        "Operator first, or set monitoring.operator: false"
    )
    check_cluster(load(raw_stack(**OPERATED)), Cluster(VERSION, CORE | {"monitoring.coreos.com/v1"}))


def test_an_extender_on_control_plane_nodes_needs_one() -> None:
    managed = Cluster(VERSION, CORE, nodes=3, control_planes=0)
    assert error_of(managed) == (
        "extender.exposure: node-port runs on control plane nodes, but none of 3 nodes has the label "
        "node-role.kubernetes.io/control-plane; use sidecar for a managed control plane"
    )
    check_cluster(load(raw_stack(extender=sidecar())), managed)


def test_each_replica_on_the_host_network_needs_a_control_plane_node() -> None:
    three = {"replicas": 3}
    assert error_of(Cluster(VERSION, CORE, nodes=5, control_planes=1), extender=three) == (
        "extender.replicas: 3, but with exposure node-port each needs a separate control plane node, and 1 "
        "of 5 nodes has the label node-role.kubernetes.io/control-plane; use 1, or exposure cluster-ip or "
        "sidecar"
    )
    check_cluster(load(raw_stack(extender=three)), Cluster(VERSION, CORE, nodes=5, control_planes=3))


@pytest.mark.parametrize("extender", [{"exposure": "cluster-ip"}, sidecar()])
def test_replicas_without_the_host_network_may_share_the_nodes_of_others(extender: Object) -> None:
    single = Cluster(VERSION, CORE, nodes=5, control_planes=1)
    check_cluster(load(raw_stack(extender={"replicas": 3, **extender})), single)


def test_more_replicas_than_nodes_are_a_warning_because_nodes_may_come() -> None:
    stack = load(raw_stack(extender=sidecar(replicas=3)))
    assert advice_on(stack, Cluster(VERSION, CORE, nodes=2)) == [
        (
            "extender.replicas: 3, each on a separate node, but the cluster has 2: the others stay "
            "Pending until there are more; use 1, or add nodes"
        )
    ]
    for nodes in (None, 0, 3):
        assert advice_on(stack, Cluster(VERSION, CORE, nodes=nodes)) == []


def test_no_scheduler_is_left_without_the_extender() -> None:
    job = {"image": DIGEST, "url": "https://10.0.0.10:32766/gpushare-scheduler"}
    three = Cluster(VERSION, CORE, nodes=5, control_planes=3)
    message = error_of(three, extender={"exposure": "cluster-ip"}, installer=job)
    assert message.startswith("installer.controlPlanes: 1, but 3 of 5 nodes have the label ")
    assert message.endswith("the schedulers of the others would place pods without the extender; use 3")


@pytest.mark.parametrize(("found", "advice"), [(0, "remove installer"), (2, "use 2")])
def test_each_pod_of_the_installer_needs_a_control_plane_node(found: int, advice: str) -> None:
    url = {"exposure": "cluster-ip"}
    job = {"image": DIGEST, "controlPlanes": 3, "url": "https://10.0.0.10:32766/gpushare-scheduler"}
    message = error_of(Cluster(VERSION, CORE, nodes=5, control_planes=found), extender=url, installer=job)
    assert message.startswith(
        "installer.controlPlanes: 3, but each pod of the Job needs a separate control plane "
    )
    assert message.endswith(f"; {advice}")


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster(VERSION, CORE, nodes=3, control_planes=1),
        Cluster(VERSION, CORE, nodes=0, control_planes=0),
        Cluster(VERSION, CORE),
    ],
    ids=["fits", "no nodes yet", "unknown"],
)
def test_a_cluster_whose_nodes_fit_or_are_unknown_is_accepted(cluster: Cluster) -> None:
    check_cluster(load(raw_stack()), cluster)


def test_a_cluster_with_another_uid_than_configured_is_an_error() -> None:
    assert error_of(Cluster(VERSION, CORE, uid="other"), clusterUid=UID) == (
        f"clusterUid: {UID}, but the UID of kube-system in the cluster is other; check kubeconfig and context"
    )
    assert "is not readable for this account;" in error_of(Cluster(VERSION, CORE), clusterUid=UID)
    check_cluster(load(raw_stack(clusterUid=UID)), Cluster(VERSION, CORE, uid=UID))


@pytest.mark.parametrize(
    ("names", "configured", "expected"),
    [((), "", ""), ((), "west", "west"), (("west",), "", "west"), (("north", "west"), "west", "west")],
)
def test_the_context_is_the_configured_or_the_only_one(
    names: tuple[str, ...], configured: str, expected: str
) -> None:
    assert chosen(names, configured) == expected


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("", "context: not set, and the kubeconfig has several: north, west; set the one of this cluster"),
        ("east", "context: east, but the kubeconfig has north, west; use one of them"),
    ],
)
def test_without_a_unique_context_the_configuration_is_wrong(configured: str, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        chosen(("north", "west"), configured)
    assert str(error.value) == expected


def test_the_cluster_has_its_version_apis_and_nodes(tmp_path: Path) -> None:
    found = Cluster(VERSION, CORE, nodes=50, control_planes=3, uid=UID)
    with served(CLUSTER) as text:
        file = tmp_path / "kubeconfig"
        file.write_text(text)
        assert read_cluster(str(file), "one") == found
        assert read_cluster(text, "") == found


def test_before_1_25_a_control_plane_may_have_the_older_label_only() -> None:
    with served({**CLUSTER, "/version": {"major": "1", "minor": "24"}}) as text:
        assert read_cluster(text, "").control_planes == 4


def test_the_text_of_a_kubeconfig_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with served(CLUSTER) as text:
        read_cluster(text, "")
    assert list(tmp_path.iterdir()) == []


def test_an_account_that_may_not_read_nodes_and_namespaces_is_enough() -> None:
    secret = (NODES, LABELLED, SYSTEM)
    denied = {path: 403 if path.startswith(secret) else answer for path, answer in CLUSTER.items()}
    with served(denied) as text:
        assert read_cluster(text, "") == Cluster(VERSION, CORE)


def test_a_cluster_that_does_not_answer_is_an_error_of_the_api() -> None:
    with served({}) as text:
        pass
    with pytest.raises(ApiError):
        read_cluster(text, "")


@pytest.mark.parametrize("path", ["/version", "/apis", SYSTEM, NODES, f"{LABELLED}/control-plane"])
@pytest.mark.parametrize("body", [{}, {"major": "", "minor": ""}, {"groups": [{}], "items": 7}])
def test_an_answer_of_another_server_is_an_error_of_the_api(path: str, body: Object) -> None:
    with (
        served({**CLUSTER, path: body}) as text,
        pytest.raises(ApiError, match=f"{path.partition('?')[0]}: "),
    ):
        read_cluster(text, "")


def test_an_unknown_context_is_a_configuration_error() -> None:
    with served(CLUSTER) as text, pytest.raises(ConfigError, match="other"):
        read_cluster(text, "other")


@pytest.mark.parametrize(
    ("text", "expected"), [("a/path", False), ("", False), ("apiVersion: v1\n", True), ('{"kind": 1}', True)]
)
def test_a_kubeconfig_is_a_path_or_a_text(text: str, *, expected: bool) -> None:
    assert is_content(text) is expected
