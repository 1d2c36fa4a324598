"""The scheduler's port with mutual TLS: the real scheduler connects, other clients do not."""

import ssl
from pathlib import Path

import aiohttp
import pytest

from gpushare.kubescheduler.config import ExtenderConfig, Tls, extender_entry
from testbed import Bed, SchedulerSpec, SimGpu, SimNode, gpu_pod
from testbed.control_plane.api import read_text
from testbed.control_plane.pki import Authority
from testbed.daemons.extender import ExtenderSpec, grant, start_extender
from tests.support.fixtures.gpu_nodes import bound

EXPIRY = "gpushare_extender_certificate_expiration_timestamp_seconds"

pytestmark = pytest.mark.asyncio(loop_scope="session")


def issue(folder: Path) -> None:
    """One authority for the extenders, a certificate for the extender and one for the scheduler."""
    authority = Authority.create("extenders")
    authority.pair().write(folder, "ca")
    authority.server("extender", ["127.0.0.1"]).write(folder, "extender")
    authority.client("system:kube-scheduler").write(folder, "scheduler")
    authority.client("system:node:n").write(folder, "kubelet")


async def test_the_real_scheduler_binds_over_mutual_tls_and_other_clients_are_refused(
    clean_bed: Bed, tmp_path: Path
) -> None:
    issue(tmp_path)
    flags = [
        f"--tls-cert={tmp_path}/extender.crt",
        f"--tls-key={tmp_path}/extender.key",
        f"--client-ca={tmp_path}/ca.crt",
    ]
    spec = ExtenderSpec(flags=flags)
    url = spec.url.replace("http://", "https://")
    tls = Tls(f"{tmp_path}/ca.crt", f"{tmp_path}/scheduler.crt", f"{tmp_path}/scheduler.key")
    entry = extender_entry(ExtenderConfig(url, tls=tls))
    bed = clean_bed
    await bed.restart_scheduler(SchedulerSpec(extenders=[entry]))
    await grant(bed)
    await start_extender(bed, spec)
    await bed.add_nodes([SimNode("n", [SimGpu()])])
    await bed.create_pods([gpu_pod("p", 4)])
    assert "ALIYUN_COM_GPU_MEM_IDX" in (await bound(bed, "p"))["metadata"]["annotations"]
    assert EXPIRY + '{certificate="server"}' in await read_text(f"{spec.ops_url}/metrics")
    assert EXPIRY + '{certificate="system:kube-scheduler"}' in await read_text(f"{spec.ops_url}/metrics")
    stranger = ssl.create_default_context(cafile=f"{tmp_path}/ca.crt")
    kubelet = ssl.create_default_context(cafile=f"{tmp_path}/ca.crt")
    kubelet.load_cert_chain(f"{tmp_path}/kubelet.crt", f"{tmp_path}/kubelet.key")
    async with aiohttp.ClientSession() as session:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
            await session.post(f"{url}/filter", data=b"{}", ssl=stranger)
        with pytest.raises(aiohttp.ClientError):
            await session.post(f"{spec.url}/filter", data=b"{}")
        answer = await session.post(f"{url}/bind", data=b"{}", ssl=kubelet)
        assert "the client certificate 'system:node:n' may not call" in (await answer.json())["Error"]
