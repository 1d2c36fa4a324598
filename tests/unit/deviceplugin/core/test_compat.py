from gpushare.deviceplugin.core.compat import failure_env
from gpushare.model.options import MemoryUnit
from tests.support.builders.gpu_pods import cards


def test_the_legacy_failure_names_the_requested_amount() -> None:
    assert failure_env(5, MemoryUnit.GIB, cards(14), "no_room").envs == {
        "NVIDIA_VISIBLE_DEVICES": "no-gpu-has-5GiB-to-run",
        "ALIYUN_COM_GPU_MEM_IDX": "-1",
        "ALIYUN_COM_GPU_MEM_POD": "5",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "5",
        "ALIYUN_COM_GPU_MEM_DEV": "14",
    }
