import pytest

from gpushare.model.cards import Card, share_mib
from gpushare.model.devices import (
    gpu_of_unit,
    is_whole_gpu_resource,
    long_id,
    short_id,
    unit_number,
    uuid_of_gpu,
)

CARD = Card(3, 14, "GPU-8f1c1d1e-6d0a-4a55-9d57-1b1f3c1d2e4f")


def test_ids_of_both_forms_have_their_gpu_and_number() -> None:
    assert (gpu_of_unit(long_id(CARD, 13)), unit_number(long_id(CARD, 13))) == (CARD.uuid, 13)
    assert (gpu_of_unit(short_id(CARD, 13)), unit_number(short_id(CARD, 13))) == ("3", 13)


@pytest.mark.parametrize("text", ["", "-", "x", "-_-", "GPU-1-_-x"])
def test_an_invalid_id_has_the_number_0(text: str) -> None:
    assert unit_number(text) == 0


def test_nvidias_ids_are_uuids_with_or_without_a_replica() -> None:
    assert uuid_of_gpu(CARD.uuid) == uuid_of_gpu(f"{CARD.uuid}::7") == CARD.uuid


@pytest.mark.parametrize(
    ("mib", "units", "of", "found"),
    [
        (15079, 4, 14, 4308),
        (15079, 14, 14, 15079),
        (15079, 0, 14, 0),
        (15079, 4, 0, 0),
        (16276, 8138, 16276, 8138),
    ],
)
def test_a_share_is_rounded_down_to_whole_mib(mib: int, units: int, of: int, found: int) -> None:
    assert share_mib(mib, units, of) == found


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-3g.20gb"])
def test_nvidias_resources_are_whole_gpus(name: str) -> None:
    assert is_whole_gpu_resource(name)


@pytest.mark.parametrize("name", ["aliyun.com/gpu-mem", "nvidia.com/rdma", "nvidia.com/gpus", "amd.com/gpu"])
def test_other_resources_do_not(name: str) -> None:
    assert not is_whole_gpu_resource(name)
