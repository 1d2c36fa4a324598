"""The documents of the usage API: their names on the wire, and null for what is unknown."""

import msgspec

from gpushare.model.usage_documents import (
    ContainerGpu,
    GpuContainer,
    GpuFit,
    GpuFitList,
    GpuPod,
    GpuPodList,
    UsageMeta,
    UsageOwner,
)

POD = GpuPod(
    metadata=UsageMeta(name="nb", namespace="team-a"),
    workload=UsageOwner("StatefulSet", "notebook"),
    containers=(GpuContainer(name="main", requested_units=4, gpus=(ContainerGpu(index=0, used_bytes=0),)),),
)


def test_unknown_numbers_are_null_and_known_ones_are_not() -> None:
    gpu = msgspec.to_builtins(POD)["containers"][0]["gpus"][0]
    assert gpu["usedBytes"] == 0
    assert {gpu[key] for key in ("peakBytes", "limitBytes", "refusals", "utilization")} == {None}


def test_each_document_names_its_version_and_kind() -> None:
    for found in (POD, GpuPodList(items=(POD,)), GpuFitList(units=24, gpus=1, items=(GpuFit(),))):
        written = msgspec.to_builtins(found)
        assert written["apiVersion"] == "usage.gpushare.io/v1"
        assert written["kind"] == type(found).__name__


def test_a_reader_gets_what_was_written() -> None:
    written = GpuPodList(items=(POD,), notes=("exporter a does not answer",))
    assert msgspec.json.decode(msgspec.json.encode(written), type=GpuPodList) == written
