"""Requests of pods, as ``PodRequests`` of k8s.io/component-helpers 1.37 adds them up."""

from typing import Any

import msgspec
import pytest

from gpushare.overview.objects import ClusterPodSpec
from gpushare.overview.requests import amount_of, number, requests_of, spelled_out

Json = dict[str, Any]


def container(restart: str | None = None, **requests: str) -> Json:
    found: Json = {"resources": {"requests": requests}}
    return found | ({"restartPolicy": restart} if restart else {})


def requested(**spec: Any) -> dict[str, int]:
    return dict(requests_of(msgspec.convert(spec, ClusterPodSpec)))


def test_containers_add_up_and_init_containers_do_not() -> None:
    main = [container(cpu="500m"), container(cpu="1", memory="1Gi")]
    assert requested(containers=main) == {"cpu": 1500, "memory": 2**30}
    assert requested(containers=main, initContainers=[container(cpu="1")]) == {"cpu": 1500, "memory": 2**30}
    assert requested(containers=main, initContainers=[container(cpu="3")])["cpu"] == 3000


def test_a_sidecar_counts_with_containers_and_with_later_init_containers() -> None:
    sidecar = container("Always", cpu="1")
    main = [container(cpu="1")]
    assert requested(containers=main, initContainers=[sidecar])["cpu"] == 2000
    assert requested(containers=main, initContainers=[sidecar, container(cpu="3")])["cpu"] == 4000
    assert requested(containers=main, initContainers=[container(cpu="3"), sidecar])["cpu"] == 3000


def test_requests_of_the_pod_replace_those_of_its_containers_and_the_overhead_is_added() -> None:
    found = requested(
        containers=[container(cpu="1", **{"a.com/b": "2"})],
        resources={"requests": {"cpu": "4", "a.com/b": "9"}},
        overhead={"cpu": "250m"},
    )
    assert found == {"cpu": 4250, "a.com/b": 2}


def test_gpu_units_and_amounts_of_zero_are_left_out() -> None:
    assert requested(containers=[container(cpu="0", **{"aliyun.com/gpu-mem": "4"})]) == {}


def test_an_amount_that_is_no_quantity_counts_as_nothing() -> None:
    assert amount_of("cpu", "x") == amount_of("memory", "x") == 0


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1000, "1 CPU"),
        ("cpu", 7500, "7.5 CPUs"),
        ("memory", 3 * 2**29, "1.5 GiB of memory"),
        ("ephemeral-storage", 2**29, "512 MiB of ephemeral-storage"),
        ("hugepages-2Mi", 2**30, "1 GiB of hugepages-2Mi"),
        ("rdma/hca", 1, "1 of rdma/hca"),
    ],
)
def test_amounts_for_people(resource: str, amount: int, text: str) -> None:
    assert spelled_out(resource, amount) == text


def test_a_need_is_rounded_up_and_what_is_free_down_so_that_advice_fits() -> None:
    amount = 20 * 2**30 + 60 * 2**20  # 20.06 GiB
    assert spelled_out("memory", amount) == "20.1 GiB of memory"
    assert spelled_out("memory", amount, is_need=False) == "20 GiB of memory"
    assert number("memory", amount) == "20 GiB"
    assert spelled_out("memory", 1) == "1 MiB of memory"
