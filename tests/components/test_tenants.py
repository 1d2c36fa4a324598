"""What the stack creates for a tenant."""

from typing import Any

import pytest

from components.manifests import everything
from components.stack import load
from gpushare.errors import ConfigError
from tests.support.builders.stacks import raw_stack

Object = dict[str, Any]


def of(kind: str, **tenant: Any) -> Object:
    objects = everything(load(raw_stack(tenants=[{"name": "a", "gpuMem": 8, **tenant}])))
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def test_a_quota_limits_gpu_memory_and_by_choice_compute_and_whole_gpus() -> None:
    assert of("ResourceQuota")["spec"]["hard"] == {"requests.aliyun.com/gpu-mem": "8"}
    assert of("ResourceQuota", gpuCore=150, gpus=0)["spec"]["hard"] == {
        "requests.aliyun.com/gpu-mem": "8",
        "requests.aliyun.com/gpu-core.percentage": "150",
        "requests.nvidia.com/gpu": "0",
    }


def test_a_pod_security_standard_is_enforced_by_choice() -> None:
    assert "labels" not in of("Namespace")["metadata"]
    assert of("Namespace", podSecurity="baseline")["metadata"]["labels"] == {
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/warn": "baseline",
    }


@pytest.mark.parametrize(
    ("tenant", "text"),
    [
        ({"gpus": -1}, "tenants[0].gpus: -1 is not allowed; use 0 to 1000000000000"),
        ({"gpuCore": -1}, "tenants[0].gpuCore: -1 is not allowed; use 0 to 1000000000000"),
        ({"podSecurity": "strict"}, "tenants[0].podSecurity: 'strict' is not allowed; use one of privileged"),
    ],
)
def test_invalid_amounts_and_standards_are_errors(tenant: Object, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        of("Namespace", **tenant)
    assert str(error.value).startswith(text)
