"""Registration over a real socket; the other side is the fake kubelet."""

from pathlib import Path

import pytest

from gpushare.adapters.kubelet.registration import OPTIONS, register
from gpushare.contract import KUBELET_SOCKET
from gpushare.errors import KubeletError
from tests.support.fakes.kubelet import fake_kubelet

RESOURCE = "aliyun.com/gpu-mem"


async def test_a_refusal_has_the_text_of_the_kubelet(tmp_path: Path) -> None:
    async with fake_kubelet(tmp_path) as kubelet:
        kubelet.refuse = "the ResourceName is invalid"
        with pytest.raises(KubeletError) as caught:
            await register(tmp_path / KUBELET_SOCKET, endpoint="p.sock", resource=RESOURCE)
    (request,) = kubelet.registrations
    assert (request.version, request.endpoint, request.resource_name) == ("v1beta1", "p.sock", RESOURCE)
    assert request.options == OPTIONS
    assert str(caught.value) == (
        f"registration of {RESOURCE}: {tmp_path}/kubelet.sock: the ResourceName is invalid (UNKNOWN)"
    )


async def test_no_kubelet_is_an_error_that_names_the_socket(tmp_path: Path) -> None:
    with pytest.raises(KubeletError, match=rf"{tmp_path}/kubelet\.sock: .*No such file.*\(UNAVAILABLE\)"):
        await register(tmp_path / KUBELET_SOCKET, endpoint="p.sock", resource=RESOURCE)


@pytest.mark.parametrize("number", range(20))  # a shared back-off shows in one of eight
async def test_a_kubelet_that_came_back_is_not_punished_for_its_absence(tmp_path: Path, number: int) -> None:
    resource = f"{RESOURCE}-{number}"
    for _ in range(3):
        with pytest.raises(KubeletError):
            await register(tmp_path / KUBELET_SOCKET, endpoint="p.sock", resource=resource)
    async with fake_kubelet(tmp_path) as kubelet:
        kubelet.refuse = "reached"
        with pytest.raises(KubeletError, match="reached"):
            await register(tmp_path / KUBELET_SOCKET, endpoint="p.sock", resource=resource)


async def test_a_kubelet_that_does_not_answer_times_out(tmp_path: Path) -> None:
    async with fake_kubelet(tmp_path):  # it dials an endpoint without a server
        with pytest.raises(KubeletError, match=r"Deadline Exceeded \(DEADLINE_EXCEEDED\)"):
            await register(tmp_path / KUBELET_SOCKET, endpoint="p.sock", resource=RESOURCE, timeout_s=0.1)
