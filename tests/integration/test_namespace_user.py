"""What a user with ClusterRole edit in one namespace, and no other right, sees of ``kubectl gpushare``.

The API server, its RBAC and kubectl are real; the exporter's page comes from a FAKE exporter. The transcript
is in ``transcripts/namespace_user.txt``; GPUSHARE_WRITE_TRANSCRIPT=1 writes it.
"""

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
import yaml

from gpushare.cli.main import TOOLS
from gpushare.contract import EVENT_REFUSED
from testbed import Bed, SchedulerSpec, Testbed, until
from testbed.daemons import console_script
from testbed.daemons.metricsapi import start_metrics_api
from tests.integration.test_usage_api import create, exporter, fill
from tests.support.builders.usage_objects import gpu_pod

GOLDEN: Final = Path(__file__).parent / "transcripts" / "namespace_user.txt"
NAMESPACE: Final = "team-a"
ANSWER: Final = (
    "no node fits: 1 of 1 nodes: Insufficient GPU Memory in one device: asked 12, "
    "at most 10 of 14 free on GPU 0"
)
COMMANDS: Final = (
    *("explain big", "explain pod/typo", "explain nb", "explain missing"),
    *("top pods", "top pod -l app=x --sort-by used", "top pod nosuch", "top pods -A", "top nodes"),
    *(
        "defrag",
        "simulate",
        "limits",
        "recommend",
        "fit 5",
        "fit 5 --gpus 2",
        "fit 4Gi",
        "inspect",
        "doctor",
        "migrate",
    ),
    *("-n team-b explain secret", "-n team-b top pods"),
)
OTHERS: Final = {
    "board": "its own tests",
    "report": "needs a Prometheus",
    "runbook": "needs no cluster",
    "version": "needs no cluster",
    "scheduler-config": "needs no cluster",
    "node-group": "needs no cluster",
    "scheduler-manifest": "is for the control plane",
    "certificates": "is for administrators",
}
"""Commands that are not tried here, and why."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    flags = ["--node-monitor-grace-period=1h"]
    async with Testbed(scheduler=SchedulerSpec(None), kwok=False, controller_flags=flags) as found:
        await fill(found)
        await create(found, gpu_pod("typo", NAMESPACE, "4Gi"))
        await found.kubectl(
            "create", "rolebinding", "alice", "-n", NAMESPACE, "--clusterrole=edit", "--user=alice"
        )
        await say(found, "big", ANSWER)
        yield found


async def say(bed: Bed, pod: str, message: str) -> None:
    """Create the event with which the extender refuses a pod."""
    path = f"/api/v1/namespaces/{NAMESPACE}"
    uid = (await bed.api.get(f"{path}/pods/{pod}"))["metadata"]["uid"]
    event = {
        "metadata": {"name": f"{pod}.1", "namespace": NAMESPACE},
        "involvedObject": {"kind": "Pod", "name": pod, "namespace": NAMESPACE, "uid": uid},
        "reason": EVENT_REFUSED,
        "message": message,
        "type": "Warning",
        "lastTimestamp": "2026-11-29T00:00:00Z",
    }
    await bed.api.create(f"{path}/events", event)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kubeconfig(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kubeconfig_of_alice(bed, tmp_path_factory.mktemp("alice"))


def kubeconfig_of_alice(bed: Bed, folder: Path) -> Path:
    """Her context has the namespace."""
    content = yaml.safe_load(bed.kubeconfig_for("alice").read_text())
    for each in content["contexts"]:
        each["context"]["namespace"] = NAMESPACE
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return path


async def tried(bed: Bed, kubeconfig: Path, words: str) -> str:
    """The command with its output and exit code, as a terminal shows them."""
    kubectl = bed.components.tools["kubectl"].path
    plugin = Path(console_script("kubectl-gpushare")).parent
    environ = {
        "PATH": f"{plugin}:{os.environ['PATH']}",
        "HOME": str(kubeconfig.parent),
        "KUBECONFIG": str(kubeconfig),
    }
    done = await asyncio.to_thread(
        subprocess.run,
        [str(kubectl), "gpushare", *words.split()],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # kubectl adds this line for every plugin that fails.
    shown = re.sub(r"^error: exit status \d+\n", "", done.stdout, flags=re.MULTILINE)
    ending = f"[exit code {done.returncode}]\n" if done.returncode else ""
    return f"$ kubectl gpushare {words}\n{_stable(shown)}{ending}"


def _stable(text: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"v1\.\d+\.\d+\S*", "v1.36.0", text)


async def all_tried(bed: Bed, kubeconfig: Path) -> str:
    return "\n".join([await tried(bed, kubeconfig, words) for words in COMMANDS])


def test_every_command_for_users_is_tried() -> None:
    names = {word for words in COMMANDS for word in words.split()[:3]}
    assert TOOLS.keys() - OTHERS.keys() <= names
    assert TOOLS.keys() >= OTHERS.keys()


@pytest.mark.asyncio(loop_scope="module")
async def test_the_transcript(bed: Bed, kubeconfig: Path) -> None:
    without = await all_tried(bed, kubeconfig)
    async with exporter() as port:
        await start_metrics_api(bed, [f"--exporter-port={port}"])
        await until(lambda: _served(bed, kubeconfig), "the role edit to have the usage API", 30, 0.2)
        served = await all_tried(bed, kubeconfig)
    transcript = f"# Without the metrics API\n\n{without}\n# With the metrics API\n\n{served}"
    if os.environ.get("GPUSHARE_WRITE_TRANSCRIPT"):
        GOLDEN.write_text(transcript)
    assert transcript == GOLDEN.read_text()


async def _served(bed: Bed, kubeconfig: Path) -> bool:
    return "[exit code" not in await tried(bed, kubeconfig, "top pods")


def test_the_transcript_names_no_other_tenant_and_is_no_traceback() -> None:
    text = GOLDEN.read_text()
    own = "\n".join(part for part in text.split("\n\n") if "-n team-b" not in part)
    assert "secret" not in own
    assert "team-b" not in own
    assert "Traceback" not in text
    assert "need skip" not in text


def test_every_refusal_says_who_can_help() -> None:
    commands = [part for part in GOLDEN.read_text().split("$ kubectl ") if "is forbidden" in part]
    assert commands
    for each in commands:
        assert "can grant the right" in each, each
