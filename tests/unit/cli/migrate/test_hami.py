"""Workloads of HAMi, converted."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.adapters.kube.wire import WirePod, pod_of
from gpushare.cli.migrate.hami import Conversion, Units, converted, released
from gpushare.model.demand import Demand
from gpushare.overview.memory_units import NodeUnit

Json = dict[str, Any]


def shares(**amounts: Any) -> Json:
    """Such as ``gpumem=3000``."""
    return {f"nvidia.com/{key.replace('_', '-')}": value for key, value in amounts.items()}


def container(name: str = "main", **amounts: Any) -> Json:
    return {"name": name, "image": "cuda", "resources": {"limits": {"cpu": "2", **shares(**amounts)}}}


def deployment(*containers: Json, annotations: Json | None = None, **spec: Any) -> Json:
    pod = {"metadata": {"annotations": annotations or {}}, "spec": {"containers": list(containers), **spec}}
    return {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": pod}}


def pod_template(result: Conversion) -> Json:
    assert result.manifest is not None
    found: Json = result.manifest["spec"]["template"]
    return found


def limits(result: Conversion) -> Json:
    found: Json = pod_template(result)["spec"]["containers"][0]["resources"]["limits"]
    return found


def test_mib_become_the_fewest_gib_that_hold_them() -> None:
    result = converted(deployment(container(gpu=1, gpumem=3000)), Units())
    assert limits(result) == {"cpu": "2", "aliyun.com/gpu-mem": 3}
    assert result.changes == [
        "container main: nvidia.com/gpu=1, nvidia.com/gpumem=3000 → aliyun.com/gpu-mem=3"
    ]
    assert result.unsupported == []


def test_mib_stay_mib_on_nodes_with_that_unit() -> None:
    result = converted(deployment(container(gpumem="3k")), Units(NodeUnit.MIB))
    assert limits(result)["aliyun.com/gpu-mem"] == 3000


def test_amounts_of_each_gpu_are_summed_and_counted_by_a_label() -> None:
    result = converted(deployment(container(gpu=2, gpumem=4096, gpucores=33)), Units())
    assert limits(result) == {
        "cpu": "2",
        "aliyun.com/gpu-mem": 8,
        "aliyun.com/gpu-core.percentage": 70,
    }
    assert pod_template(result)["metadata"]["labels"] == {"aliyun.com/gpu-count": "2"}


def test_the_argument_is_not_changed() -> None:
    manifest = deployment(container(gpumem=1))
    converted(manifest, Units())
    assert manifest == deployment(container(gpumem=1))


def test_requests_of_hami_are_removed() -> None:
    manifest = deployment({"name": "main", "resources": {"requests": shares(gpumem=1024)}})
    result = converted(manifest, Units())
    resources = pod_template(result)["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {}, "limits": {"aliyun.com/gpu-mem": 1}}


@pytest.mark.parametrize(
    ("theirs", "ours"), [("binpack", "binpack"), ("spread", "spread"), ("topology-aware", "topology")]
)
def test_scheduler_policy_and_state_are_replaced(theirs: str, ours: str) -> None:
    state = {"hami.io/vgpu-node": "n1", "hami.io/gpu-scheduler-policy": theirs, "team": "a"}
    manifest = deployment(container(gpumem=1), annotations=state, schedulerName="hami-scheduler")
    pod = pod_template(converted(manifest, Units()))
    assert pod["metadata"]["annotations"] == {"team": "a", "gpushare.io/placement": ours}
    assert "schedulerName" not in pod["spec"]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"nvidia.com/use-gputype": "A100, V100"}, {"gpushare.io/use-gpu-models": "A100,V100"}),
        (
            {"nvidia.com/nouse-gputype": "NVIDIA-NVIDIA L4,NVIDIA-Tesla V100-PCIE-32GB"},
            {"gpushare.io/avoid-gpu-models": "NVIDIA L4,Tesla V100-PCIE-32GB"},
        ),
        ({"nvidia.com/use-gpuuuid": "GPU-a,GPU-b"}, {"gpushare.io/use-gpu-uuids": "GPU-a,GPU-b"}),
        ({"nvidia.com/nouse-gpuuuid": "GPU-a,"}, {"gpushare.io/avoid-gpu-uuids": "GPU-a"}),
    ],
)
def test_choices_among_gpus_are_kept(theirs: Json, ours: Json) -> None:
    result = converted(deployment(container(gpumem=1), annotations=theirs), Units())
    assert pod_template(result)["metadata"]["annotations"] == ours
    [(before, value)] = theirs.items()
    [(after, kept)] = ours.items()
    assert result.changes[1:] == [f"annotation {before}={value} → {after}={kept}"]
    assert result.unsupported == []


@pytest.mark.parametrize("others", [{}, {"zone": "a"}])
def test_the_selector_of_hamis_node_label_is_removed(others: Json) -> None:
    manifest = deployment(container(gpumem=1), nodeSelector={"gpu": "on", **others})
    result = converted(manifest, Units())
    assert pod_template(result)["spec"].get("nodeSelector", {}) == others
    assert result.changes[1:] == ["nodeSelector gpu=on removed: a node loses this label of HAMi"]


def test_a_selector_with_another_value_is_kept() -> None:
    result = converted(deployment(container(gpumem=1), nodeSelector={"gpu": "a100"}), Units())
    assert pod_template(result)["spec"]["nodeSelector"] == {"gpu": "a100"}
    assert len(result.changes) == 1


def affinity(*terms: Json) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return deployment(container(gpumem=1), affinity={"nodeAffinity": required})


def term(operator: str, *values: str, key: str = "gpu") -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize("needed", [term("In", "on"), term("In", "off", "on"), term("Exists")])
def test_required_affinity_to_hamis_node_label_is_reported(needed: Json) -> None:
    result = converted(affinity(term("In", "a", key="zone"), needed), Units())
    assert result.unsupported == [
        "required node affinity on gpu: a node loses this label of HAMi, remove it by hand"
    ]


@pytest.mark.parametrize("harmless", [term("NotIn", "on"), term("DoesNotExist"), term("In", "a100"), {}])
def test_affinity_that_a_node_without_the_label_fulfils_is_not_reported(harmless: Json) -> None:
    assert converted(affinity(harmless), Units()).unsupported == []


def test_a_percentage_needs_the_size_of_the_gpu() -> None:
    manifest = deployment(container(gpumem_percentage=50))
    assert converted(manifest, Units()).unsupported == [
        (
            "container main: nvidia.com/gpumem-percentage=50 depends on the size of the GPU: "
            "state it with --gpu-mib"
        )
    ]
    assert limits(converted(manifest, Units(gpu_mib=16_000)))["aliyun.com/gpu-mem"] == 8


@pytest.mark.parametrize(
    ("containers", "text"),
    [
        ([container(gpucores=30)], "container main: without nvidia.com/gpumem it has all memory of a GPU"),
        ([container(gpumem="4Q")], "container main: nvidia.com/gpumem: quantity '4Q' is not"),
        ([container(gpumem=-1)], "container main: nvidia.com/gpumem=-1 is negative"),
        ([container(gpu=0, gpumem=1)], "container main: nvidia.com/gpu=0 is not a number of GPUs"),
        ([container(gpumem=1, gpucores=101)], "container main: nvidia.com/gpucores=101 is more than"),
        ([container(gpumem=1), container("b", gpu=2, gpumem=1)], "its containers request 1, 2 GPUs; "),
    ],
)
def test_what_cannot_be_converted_has_a_reason(containers: list[Json], text: str) -> None:
    result = converted(deployment(*containers), Units())
    assert result.manifest is None
    assert result.unsupported[0].startswith(text)


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        (
            deployment(container(gpumem=1, priority=0)),
            "container main: nvidia.com/priority has no counterpart",
        ),
        (
            deployment(container(gpumem=1), annotations={"nvidia.com/numa-bind": "true"}),
            "annotation nvidia.com/numa-bind=true: the policy topology (gpushare.io/placement) prefers GPUs",
        ),
        (
            deployment(container(gpumem=1), annotations={"nvidia.com/vgpu-mode": "mig"}),
            "annotation nvidia.com/vgpu-mode: GPUs with MIG are not shared",
        ),
        (
            deployment(container(gpumem=1), annotations={"hami.io/gpu-scheduler-policy": "other"}),
            "scheduler policies other: one policy places on nodes and GPUs here",
        ),
        (
            deployment(container(gpumem=1) | {"env": [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]}),
            "container main: env CUDA_DISABLE_CONTROL switches HAMi's limits off",
        ),
    ],
)
def test_what_has_no_counterpart_is_reported(manifest: Json, text: str) -> None:
    result = converted(manifest, Units())
    assert result.manifest is not None
    assert result.unsupported[0].startswith(text)


def test_whole_gpus_stay_without_the_scheduler_the_label_and_the_state_of_hami() -> None:
    state = {"hami.io/vgpu-node": "n1", "team": "a"}
    pinned = {"schedulerName": "hami-scheduler", "nodeSelector": {"gpu": "on"}}
    result = released(deployment(container(gpu=2), annotations=state, **pinned))
    assert pod_template(result) == {
        "metadata": {"annotations": {"team": "a"}},
        "spec": {"containers": [container(gpu=2)]},
    }
    assert result.changes == [
        "schedulerName hami-scheduler → the default",
        "nodeSelector gpu=on removed: a node loses this label of HAMi",
    ]
    assert result.unsupported == []


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({"hami.io/node-scheduler-policy": "spread"}, "scheduler policies spread: kube-scheduler places"),
        ({"nvidia.com/use-gpuuuid": "GPU-0"}, "annotation nvidia.com/use-gpuuuid=GPU-0: the kubelet chooses"),
        ({"nvidia.com/use-gputype": "A100"}, "annotation nvidia.com/use-gputype=A100: use a nodeSelector on"),
    ],
)
def test_whole_gpus_that_hami_selects_are_reported(annotations: Json, text: str) -> None:
    result = released(deployment(container(gpu=1), annotations=annotations))
    assert pod_template(result)["metadata"]["annotations"] == {}
    assert result.unsupported[0].startswith(text)
    assert result.changes == []


@given(st.integers(1, 16), st.integers(1, 10**6), st.integers(0, 100), st.sampled_from(["GiB", "MiB"]))
def test_a_converted_pod_has_at_least_what_it_requested_on_each_gpu(
    gpus: int, mib: int, cores: int, unit: str
) -> None:
    result = converted(deployment(container(gpu=gpus, gpumem=mib, gpucores=cores)), Units(NodeUnit(unit)))
    made = pod_of(msgspec.convert(pod_template(result), WirePod))
    assert made is not None
    assert isinstance(made.demand, Demand)
    size = 1024 if unit == "GiB" else 1
    assert made.demand.cards == gpus
    assert mib <= made.demand.per_card.mem * size < mib + size
    assert cores <= made.demand.per_card.core < cores + 5
