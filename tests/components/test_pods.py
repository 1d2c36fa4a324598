"""What the pods of all services have: tolerations, priority, labels, and how they are replaced."""

from typing import Any

import pytest

from components.manifests import everything
from components.stack import from_file, load
from gpushare.errors import ConfigError
from tests.support.builders.stacks import DIGEST, STACKS, raw_stack

Object = dict[str, Any]
SCHEDULED = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
SHARING = {"gpushare": "true"}
TAINT = "dedicated=gpu:NoSchedule"
EVERY_PART: Object = {
    "pools": [{"evictRecover": True}],
    "isolation": {"image": DIGEST},
    "mps": {"image": DIGEST},
    "monitoring": {
        "exporter": {"image": DIGEST},
        "metricsApi": {"image": DIGEST, "tlsSecret": "tls", "caBundle": "-----BEGIN CERTIFICATE-----"},
    },
}


def objects_of(**changes: Any) -> list[Object]:
    return everything(load(raw_stack(**changes)))


def workloads(objects: list[Object], kind: str) -> dict[str, Object]:
    return {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == kind}


def pod(workload: Object) -> Object:
    spec: Object = workload["template"]["spec"]
    return spec


def error_of(**changes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        load(raw_stack(**changes))
    return str(error.value)


def test_daemons_of_nodes_tolerate_every_taint_by_default() -> None:
    daemons = workloads(objects_of(**EVERY_PART), "DaemonSet")
    assert len(daemons) == 6
    assert [pod(each)["tolerations"] for each in daemons.values()] == [[{"operator": "Exists"}]] * 6


@pytest.mark.parametrize("name", STACKS)
def test_daemons_are_replaced_on_a_tenth_of_the_nodes_at_a_time(name: str) -> None:
    daemons = workloads(everything(load(from_file(STACKS[name]))), "DaemonSet")
    updates = [each["updateStrategy"] for key, each in daemons.items() if key != "gpushare-mps"]
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    assert updates == [rolling] * len(updates)


@pytest.mark.parametrize(("given", "rendered"), [("3", 3), ("25%", "25%")])
def test_the_number_of_nodes_at_a_time_is_a_number_or_a_percentage(given: str, rendered: int | str) -> None:
    daemons = workloads(objects_of(pools=[{"maxUnavailable": given}]), "DaemonSet")
    update = daemons["gpushare-device-plugin-ds"]["updateStrategy"]["rollingUpdate"]
    assert update == {"maxUnavailable": rendered}


@pytest.mark.parametrize("count", ["0", "0%", "101%", "-1", "1.5", "half"])
def test_an_invalid_number_of_nodes_is_an_error(count: str) -> None:
    assert error_of(pools=[{"maxUnavailable": count}]) == (
        f"devicePlugins[0].maxUnavailable: {count!r} is not a number of nodes; "
        'use "1" or more, or "1%" to "100%"'
    )


def test_tolerations_and_priority_of_each_service_are_settings() -> None:
    own = {"tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}], "priorityClass": "platform"}
    objects = objects_of(
        extender=own,
        pools=[own],
        isolation={"image": DIGEST, **own},
        mps={"image": DIGEST, **own},
        monitoring={
            "exporter": {"image": DIGEST, **own},
            "metricsApi": {**EVERY_PART["monitoring"]["metricsApi"], **own},
        },
    )
    found = [
        pod(each) for kind in ("DaemonSet", "Deployment", "Job") for each in workloads(objects, kind).values()
    ]
    assert len(found) == 7
    for each in found:
        assert each["tolerations"] == own["tolerations"]
        assert each["priorityClassName"] == "platform"


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        ({}, "key: missing; set it, or operator: Exists for every taint"),
        ({"key": "a", "value": "a b"}, "value: 'a b' is not a label value"),
        ({"operator": "Exists", "key": "a", "value": "b"}, "value: 'b' is not allowed with operator Exists"),
        ({"key": "a b"}, "key: 'a b' is not a label"),
        ({"key": "a", "effect": "Never"}, "effect: 'Never' is not allowed; use one of NoSchedule"),
    ],
)
def test_invalid_tolerations_are_errors(toleration: Object, text: str) -> None:
    assert error_of(extender={"tolerations": [toleration]}).startswith(f"extender.tolerations[0].{text}")


def tainted(taint: str, *tolerations: Object, **changes: Any) -> Object:
    pool = {"nodes": ["a"], "labels": SHARING, "taints": [taint]}
    return {"pools": [{"tolerations": list(tolerations)}], "nodePools": [pool], **changes}


def test_the_default_tolerates_the_taints_of_the_pools() -> None:
    assert load(raw_stack(nodePools=[{"nodes": ["a"], "labels": SHARING, "taints": [TAINT]}]))


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "dedicated", "operator": "Exists"},
        {"key": "dedicated", "value": "gpu"},
        SCHEDULED,
    ],
)
def test_a_toleration_that_matches_the_taint_of_a_pool_is_enough(toleration: Object) -> None:
    assert load(raw_stack(**tainted(TAINT, toleration)))


@pytest.mark.parametrize(
    "tolerations",
    [
        [],
        [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        [{**SCHEDULED, "value": "other"}],
        [{**SCHEDULED, "effect": "NoExecute"}],
    ],
)
def test_a_taint_that_would_keep_our_own_agents_away_is_an_error(tolerations: list[Object]) -> None:
    assert error_of(**tainted(TAINT, *tolerations)) == (
        f"devicePlugins[0].tolerations: none for the taint {TAINT!r} of nodePools[0], so it would not run on "
        "these nodes; add {key: dedicated, operator: Exists}, or remove the list, because the default "
        "tolerates every taint"
    )


def test_a_taint_is_checked_against_every_daemon_of_its_nodes() -> None:
    exporter = {"image": DIGEST, "tolerations": [], "nodeLabels": ["gpushare=true"]}
    raw = tainted(TAINT, SCHEDULED, monitoring={"exporter": exporter})
    assert error_of(**raw).startswith("monitoring.exporter.tolerations: none for the taint")
    exporter["nodeLabels"] = ["example.com/other"]
    assert load(raw_stack(**raw))


def test_a_taint_that_only_prefers_other_nodes_needs_no_toleration() -> None:
    assert load(raw_stack(**tainted("dedicated=gpu:PreferNoSchedule")))


def test_labels_and_annotations_of_the_stack_are_on_every_object_and_pod_except_nodes() -> None:
    marks = {"labels": {"example.com/team": "gpu"}, "annotations": {"example.com/cost": "7"}}
    objects = objects_of(
        **EVERY_PART,
        **marks,
        nodePools=[{"nodes": ["a"], "labels": SHARING}],
        tenants=[{"name": "t", "gpuMem": 1}],
    )
    ours = [each["metadata"] for each in objects if each["kind"] != "Node"]
    templates = [
        each["spec"]["template"]["metadata"] for each in objects if "template" in each.get("spec", {})
    ]
    for metadata in ours + templates:
        assert marks["labels"].items() <= metadata["labels"].items()
        assert marks["annotations"].items() <= metadata["annotations"].items()
    (node,) = [each["metadata"] for each in objects if each["kind"] == "Node"]
    assert node == {"name": "a", "labels": {"gpushare": "true"}}


@pytest.mark.parametrize("name", STACKS)
def test_every_object_has_our_label_except_for_nodes_and_namespaces_which_are_those_of_others(
    name: str,
) -> None:
    for each in everything(load(from_file(STACKS[name]))):
        is_foreign = each["kind"] in ("Node", "Namespace")
        assert each["metadata"].get("labels", {}).get("app") == (None if is_foreign else "gpushare")


def test_labels_of_the_stack_are_not_in_selectors_which_are_immutable() -> None:
    objects = objects_of(**EVERY_PART, labels={"example.com/team": "gpu"})
    assert "example.com/team" not in str([each["spec"].get("selector") for each in objects if "spec" in each])


def test_a_label_by_which_services_select_their_pods_is_reserved() -> None:
    assert error_of(labels={"app": "mine"}) == (
        "labels.app: reserved, Services select pods by it; use another key"
    )


def test_objects_of_the_operator_have_the_labels_that_its_chart_selects() -> None:
    def labels_of(**monitoring: Any) -> list[Object]:
        parts = {"exporter": {"image": DIGEST}, "operator": True, **monitoring}
        objects = objects_of(monitoring=parts)
        kinds = ("PodMonitor", "PrometheusRule")
        return [each["metadata"]["labels"] for each in objects if each["kind"] in kinds]

    ours = {"app": "gpushare", "component": "gpushare-prometheus"}
    assert labels_of() == [{"release": "kube-prometheus-stack", **ours}] * 2
    assert labels_of(operatorLabels={"prometheus": "main"}) == [{"prometheus": "main", **ours}] * 2
