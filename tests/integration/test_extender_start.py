"""Start, stop and missing permissions: errors are reported, and everything else works."""

import asyncio
import sys
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from devkit.process import Process
from devkit.waiting import timeout_factor
from gpushare.contract import EVENT_REFUSED
from testbed import Bed, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import read_text
from testbed.daemons.extender import ExtenderSpec, grant, start_extender
from tests.support.fixtures.gpu_nodes import until_event

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gpushare-schd-extender"
GPUSHARE = str(Path(sys.executable).with_name("gpushare"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bed(clean_bed: Bed) -> Bed:
    await grant(clean_bed)
    await clean_bed.add_nodes([SimNode("n", [SimGpu(units=10_000)])])
    return clean_bed


async def fails_with(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run the extender to its end; returns exit code and stderr."""
    process = await asyncio.create_subprocess_exec(
        "env",
        *(f"{key}={value}" for key, value in (env or {}).items()),
        *(GPUSHARE, "extender", "--port=0", "--ops-port=0", "--host=127.0.0.1", "--ops-host=127.0.0.1"),
        *arguments,
        stderr=asyncio.subprocess.PIPE,
    )
    _, text = await asyncio.wait_for(process.communicate(), 20 * timeout_factor())
    return process.returncode or 0, text.decode()


async def test_the_error_for_a_missing_kubeconfig_names_it(tmp_path: Path) -> None:
    code, text = await fails_with(f"--kubeconfig={tmp_path}/none")
    assert (code, text.strip()) == (
        2,
        f"gpushare extender: kubeconfig {tmp_path}/none: no such file (set KUBECONFIG or --kubeconfig)",
    )


async def test_the_error_for_a_kubeconfig_that_is_not_yaml_names_it(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("{nothing: [")
    code, text = await fails_with(env={"KUBECONFIG": f"{tmp_path}/bad"})
    assert code == 2
    assert f"kubeconfig {tmp_path}/bad: " in text
    assert "Traceback" not in text


async def test_the_error_for_a_kubeconfig_that_is_a_directory_names_it(tmp_path: Path) -> None:
    code, text = await fails_with(f"--kubeconfig={tmp_path}")
    assert code == 2
    assert f"kubeconfig {tmp_path}: Is a directory" in text


async def test_the_error_without_kubeconfig_and_cluster_has_both_remedies() -> None:
    code, text = await fails_with()
    assert code == 2
    assert "set KUBECONFIG or --kubeconfig" in text


async def test_the_error_for_impossible_durations_has_their_values(tmp_path: Path) -> None:
    code, text = await fails_with("--bind-timeout=20", f"--kubeconfig={tmp_path}/x")
    assert code == 2
    assert "0 < --bind-timeout < --renew-deadline < --lease-duration; given 20, 10, 15" in text


async def test_the_error_for_a_port_in_use_names_it(bed: Bed) -> None:
    taken = int(bed.api_url.rsplit(":", 1)[1])
    code, text = await fails_with(f"--port={taken}", f"--kubeconfig={bed.kubeconfig}")
    assert code == 2
    assert f"cannot listen on 127.0.0.1:{taken}: Address already in use" in text


async def test_a_certificate_without_a_key_is_an_error(bed: Bed) -> None:
    code, text = await fails_with("--tls-cert=/x", f"--kubeconfig={bed.kubeconfig}")
    assert code == 2
    assert "--tls-cert, --tls-key and --client-ca belong together" in text


async def test_an_invalid_port_variable_selects_the_default_of_the_aliyun_extender(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        "env", "PORT=twelve", GPUSHARE, "extender", f"--kubeconfig={tmp_path}/none",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, text = await asyncio.wait_for(process.communicate(), 20 * timeout_factor())
    assert "PORT='twelve' is not a number, listening on 39999" in text.decode()


async def readyz(spec: ExtenderSpec) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"{spec.ops_url}/readyz") as reply:
        return reply.status, await reply.text()


async def metric(spec: ExtenderSpec, line: str) -> bool:
    return line in await read_text(f"{spec.ops_url}/metrics")


async def test_without_permission_to_list_the_extender_is_not_ready_and_names_the_verb(bed: Bed) -> None:
    spec = ExtenderSpec("stranger")
    process = await bed.spawn(
        spec.name, spec.argv(bed.kubeconfig_for("stranger")), ready=lambda: metric(spec, "gpushare_extender_")
    )

    async def reported() -> bool:
        status, text = await readyz(spec)
        return status == 503 and 'User "stranger" cannot list resource "pods"' in text

    await until(reported, "readyz to name the missing right")
    answer = await read_text(f"{spec.url}/filter", post='{"Pod": {}, "NodeNames": []}')
    assert "the extender has not listed nodes and pods yet" in answer
    assert process.running
    await process.stop()


async def test_a_port_without_tls_on_every_address_is_reported_as_degraded(bed: Bed) -> None:
    spec = ExtenderSpec("open", flags=["--host=::"])
    process = await start_extender(bed, spec)
    status, text = await readyz(spec)
    assert (status, text.splitlines()[0]) == (200, "ok")
    assert "degraded: every host and pod that reaches the scheduler's port can bind pods" in text
    assert await metric(spec, 'gpushare_extender_degraded_mode{right="tls"} 1.0')
    assert process.command.log.read_text().count("every host and pod that reaches") == 1
    await process.stop()


async def test_a_missing_optional_permission_is_reported_as_degraded(bed: Bed) -> None:
    spec = ExtenderSpec("poor")
    await bed.apply(_REQUIRED_ONLY)
    process = await start_extender(bed, spec, bed.kubeconfig_for("poor"))
    for right in ("configmaps", "poddisruptionbudgets"):
        line = f'gpushare_extender_degraded_mode{{right="{right}"}} 1.0'
        await until(partial(metric, spec, line), f"the metric of {right}")
    assert await _binds(bed, spec) == ""
    logged = process.command.log.read_text()
    assert "configmaps" in logged
    assert "poddisruptionbudgets" in logged
    await process.stop()


_REQUIRED_ONLY = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: poor}
rules:
- {apiGroups: [""], resources: [nodes, pods], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [pods/binding], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: poor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: poor}
subjects: [{kind: User, name: poor, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: poor, namespace: kube-system}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: poor, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: poor}
subjects: [{kind: User, name: poor, apiGroup: rbac.authorization.k8s.io}]
"""


async def _binds(bed: Bed, spec: ExtenderSpec) -> str:
    """Bind a new pod, once the extender may; returns the last error."""
    pod = (await bed.create_pods([gpu_pod(f"pod-of-{spec.name}", 1)]))[0]["metadata"]
    body = {"PodName": pod["name"], "PodNamespace": "default", "PodUID": pod["uid"], "Node": "n"}
    last = ""

    async def bound() -> bool:
        nonlocal last
        async with aiohttp.ClientSession() as session, session.post(f"{spec.url}/bind", json=body) as reply:
            last = (await reply.json())["Error"]
        return not last

    await until(bound, "a bind")
    return last


async def holder(bed: Bed) -> str:
    return str((await bed.api.get(LEASE))["spec"]["holderIdentity"])


async def test_sigterm_releases_the_lease_and_the_next_extender_binds_at_once(bed: Bed) -> None:
    first, second = ExtenderSpec("first"), ExtenderSpec("second")
    process = await start_extender(bed, first)
    assert await _binds(bed, first) == ""
    assert await holder(bed)
    await process.stop()
    assert process_left_nothing(process)
    assert await holder(bed) == ""
    following = await start_extender(bed, second)
    await until(lambda: metric(second, "gpushare_extender_leader 1.0"), "the second to lead", 5)
    await following.stop()


def process_left_nothing(process: Process) -> bool:
    return not process.running and "Traceback" not in process.command.log.read_text()


async def test_a_new_leader_explains_pods_that_were_refused_before(bed: Bed) -> None:
    """Their condition does not change, so that no watch delivers them again."""
    name = "refused-before"
    await bed.create_pods([gpu_pod(name, 20_000)])
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}
    path = f"/api/v1/namespaces/default/pods/{name}/status"
    await bed.api.patch(path, {"status": {"conditions": [refused]}})
    process = await start_extender(bed, ExtenderSpec("next"))
    await until_event(bed, name, lambda text: "the largest GPU has 10000" in text, EVENT_REFUSED)
    await process.stop()


async def test_a_follower_forwards_binds_or_returns_an_error(bed: Bed) -> None:
    leader, follower = ExtenderSpec("leader"), ExtenderSpec("follower")
    leading = await start_extender(bed, leader)
    await until(lambda: metric(leader, "gpushare_extender_leader 1.0"), "a leader")
    following = await start_extender(bed, follower)
    assert await _binds(bed, follower) == ""
    await until(
        lambda: metric(follower, 'gpushare_extender_forwarded_requests_total{result="ok",verb="bind"} 1.0'),
        "the metric",
    )
    await leading.pause()
    body = '{"PodName": "x", "PodNamespace": "default", "PodUID": "u", "Node": "n"}'
    answer = await read_text(f"{follower.url}/bind", post=body, timeout_s=10)
    assert "the extender that holds the Lease" in answer
    assert f"127.0.0.1:{leader.port}" in answer
    await leading.resume()
    await asyncio.gather(leading.stop(), following.stop())
