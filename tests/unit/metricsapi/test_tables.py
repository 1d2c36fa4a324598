"""Tables for ``kubectl get``: when a client wants one, and its cells."""

import pytest

from gpushare.metricsapi.tables import pod_row, wants_table
from gpushare.model.usage_documents import ContainerGpu, GpuContainer, GpuPod, UsageMeta, UsageOwner

CREATED = 1_700_000_000
"""2023-11-14T22:13:20Z."""


def pod(*gpus: ContainerGpu) -> GpuPod:
    return GpuPod(
        metadata=UsageMeta(name="nb", namespace="a", creation_timestamp="2023-11-14T22:13:20Z"),
        workload=UsageOwner("Deployment", "web"),
        node="n",
        containers=(GpuContainer(name="main", requested_units=4, gpus=gpus),),
    )


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", True),
        (b"application/json; as=Table; v=v1; g=meta.k8s.io", True),
        (b"application/json,application/json;as=Table;v=v1;g=meta.k8s.io", False),
        (b"application/json", False),
        (b"*/*", False),
        (b"", False),
    ],
)
def test_a_client_gets_a_table_if_it_prefers_one(accept: bytes, *, wanted: bool) -> None:
    assert wants_table(accept) is wanted


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(-5, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172_800, "2d")],
)
def test_the_age_has_one_unit(seconds: int, age: str) -> None:
    assert age in pod_row(pod(), CREATED + seconds)["cells"]


def test_numbers_of_several_gpus_are_summed_and_unknown_ones_are_not_zero() -> None:
    gpus = (ContainerGpu(index=0, used_bytes=2**30, utilization=0.5), ContainerGpu(index=1, used_bytes=2**30))
    cells = pod_row(pod(*gpus), CREATED)["cells"]
    assert cells[4:9] == ["2048MiB", "<unknown>", "<unknown>", "<unknown>", "50%"]
    assert cells[-2:] == ["deployment/web", "<unknown>"]
