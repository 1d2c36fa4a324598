"""A template that Cluster Autoscaler makes from the entries of a group is one that the extender accepts.

How each provider reads them is written from Cluster Autoscaler's sources, commit b7bb87ea of 2026-05-25.
"""

import json
from collections.abc import Callable, Mapping

import pytest

from gpushare.cli.node_group.entries import PROVIDERS, group_of
from gpushare.errors import InvalidRequest
from gpushare.extender.verbs import filter_steps
from gpushare.scheduling.ledger import EMPTY_LEDGER
from tests.support.steps import finished

Template = tuple[dict[str, str], dict[str, str]]
"""Labels and extended resources of a node."""


def aws(tags: Mapping[str, str]) -> Template:
    """``extractLabelsFromAsg`` and ``extractAllocatableResourcesFromAsg`` in ``aws_manager.go``."""
    prefix = "k8s.io/cluster-autoscaler/node-template/"
    labels = {
        key.split(f"{prefix}label/")[1]: value for key, value in tags.items() if f"{prefix}label/" in key
    }
    part = f"{prefix}resources/"
    return labels, {key.split(part)[1]: value for key, value in tags.items() if part in key}


def azure(tags: Mapping[str, str]) -> Template:
    """``azure_template.go``: _ is a slash, and ~2 an underscore in labels, but a slash in resources."""
    prefix = "k8s.io_cluster-autoscaler_node-template_"
    assert not any("/" in key for key in tags), "tags of Azure may not contain a slash"
    label, part = f"{prefix}label_", f"{prefix}resources_"
    labels = {
        key.split(label)[1].replace("_", "/").replace("~2", "_"): value
        for key, value in tags.items()
        if label in key
    }
    resources = {
        key.split(part)[1].replace("_", "/").replace("~2", "/"): value
        for key, value in tags.items()
        if part in key
    }
    return labels, resources


def gke(labels: Mapping[str, str]) -> Template:
    """``extractExtendedResourcesFromKubeEnv`` in ``gce/templates.go``; the labels stay labels."""
    prefix = "clusterautoscaler-nodetemplate-resources."
    resources = {key.removeprefix(prefix): value for key, value in labels.items() if key.startswith(prefix)}
    return dict(labels), resources


def cluster_api(annotations: Mapping[str, str]) -> Template:
    """``InstanceCapacity`` in ``clusterapi_unstructured.go``: one resource, of type and count."""
    prefix = "capacity.cluster-autoscaler.kubernetes.io/"
    labels = dict(pair.split("=", 1) for pair in annotations[f"{prefix}labels"].split(","))
    return labels, {annotations[f"{prefix}gpu-type"]: annotations[f"{prefix}gpu-count"]}


READERS: Mapping[str, Callable[[Mapping[str, str]], Template]] = {
    "aws": aws,
    "azure": azure,
    "gke": gke,
    "cluster-api": cluster_api,
}


def fits(provider: str, asks: int, gpus: int = 1, **labels: str) -> bool:
    """Whether the extender lets the pod on a template of nodes with 4 GPUs of 22 units."""
    found, resources = READERS[provider](PROVIDERS[provider](group_of(4, 22, labels)))
    template = {
        "metadata": {"name": "template", "labels": found},
        "status": {"capacity": resources, "allocatable": resources},
    }
    limits = {"aliyun.com/gpu-mem": str(asks)}
    pod = {
        "metadata": {"name": "p", "uid": "u", "labels": {"aliyun.com/gpu-count": str(gpus)}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }
    body = json.dumps({"Pod": pod, "Nodes": {"items": [template]}, "NodeNames": None}).encode()
    answer = json.loads(finished(filter_steps(body, EMPTY_LEDGER)).answer)
    assert answer["Error"] == ""
    return bool(answer["NodeNames"])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_extender_accepts_the_template_of_a_group(provider: str) -> None:
    assert fits(provider, 22)
    assert not fits(provider, 23)
    assert fits(provider, 88, gpus=4)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_its_labels_are_those_of_the_nodes(provider: str) -> None:
    labels = {"ack.node.gpu.schedule": "core_mem", "example.com/tier_name": "gpu-gold"}
    found, resources = READERS[provider](PROVIDERS[provider](group_of(2, 79, labels)))
    assert found.items() >= labels.items()
    assert resources["aliyun.com/gpu-mem"] == "158"
    assert resources.get("aliyun.com/gpu-core.percentage") == (None if provider == "cluster-api" else "200")


def test_a_group_shares_memory_unless_a_label_selects_a_mode() -> None:
    assert group_of(1, 14, {}).labels == {"gpushare": "true"}
    assert group_of(1, 14, {"cgpu": "true"}).labels == {"cgpu": "true"}


@pytest.mark.parametrize("labels", [{"gpushare": "false"}, {"ack.node.gpu.schedule": "default"}])
def test_a_group_that_shares_nothing_is_refused(labels: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=r"share no GPU: label"):
        group_of(1, 14, labels)
