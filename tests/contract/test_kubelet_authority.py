"""The ``:authority`` header of kubelet calls: ``localhost`` since 1.26, the socket path before.

Source: kubernetes/kubernetes pull request 112597, after which some servers refused the path.
"""

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest

from gpushare.deviceplugin.kubelet.registrar import Registrar
from gpushare.deviceplugin.metrics import PluginMetrics
from tests.support.fakes.device_plugin import RESOURCE, FakePlugin
from tests.support.fakes.kubelet import fake_kubelet
from tests.support.waiting import until


@pytest.mark.parametrize("form", ["localhost", "{path}", "{escaped}"])
async def test_a_kubelet_of_any_age_is_served(tmp_path: Path, form: str) -> None:
    plugin = FakePlugin()
    path = str(tmp_path / plugin.socket)
    async with fake_kubelet(tmp_path) as kubelet, asyncio.timeout(10):
        kubelet.authority = form.format(path=path, escaped=quote(path, safe=""))
        registrar = asyncio.create_task(Registrar(plugin, tmp_path, PluginMetrics()).run())
        await until(lambda: kubelet.allocatable(RESOURCE) == len(plugin.stock))
        assert (await kubelet.admit("uid", "main", RESOURCE, 2)).envs["IDS"] == "a,b"
        registrar.cancel()
        await asyncio.gather(registrar, return_exceptions=True)
