"""A control plane whose kube-scheduler is a static pod of a real kubelet, as kubeadm leaves it.

The image is the real program of its version and nothing else. What belongs here: putting it there, and
seeing what runs. What does not: who edits the manifest.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from testbed import Bed, gpu_pod, until
from testbed.kubelets import KubeletNode
from testbed.programs import build
from tests.support import kubeadm, program_image

FOLDER: Final = "/etc/kubernetes"
STATIC_PODS: Final = {"staticPodPath": f"{FOLDER}/manifests"}
"""For the node's KubeletConfiguration."""
MANIFEST: Final = f"{FOLDER}/manifests/kube-scheduler.yaml"
TOOLS: Final = {"1.22": "kube-scheduler-1.22", "1.36": "kube-scheduler"}
# The API server here is a later one, and does not serve what 1.22 would watch with that feature.
_FLAGS: Final[Mapping[str, list[str]]] = {"1.22": ["--feature-gates=CSIStorageCapacity=false"]}
_PODS: Final = "/api/v1/namespaces/default/pods"


def original(version: str, tag: str | None = None) -> str:
    """The manifest as kubeadm writes it, with ``tag`` in place of that of its image."""
    text = kubeadm.scheduler(version, *_FLAGS.get(version, []))
    return text.replace(f":v{version}.4", f":{tag}") if tag else text


async def install(node: KubeletNode, version: str, folder: Path, tag: str | None = None) -> None:
    """Let the node run kube-scheduler; ``folder`` is for the image."""
    text = original(version, tag)
    await _load(node, version, text, folder / f"kube-scheduler-{version}.tar")
    user = node.bed.kubeconfig_for("system:kube-scheduler")
    kubeconfig = node.path(f"{FOLDER}/scheduler.conf")
    kubeconfig.parent.mkdir(exist_ok=True)
    view = ["config", "view", f"--kubeconfig={user}", "--flatten", "--raw"]
    kubeconfig.write_text(await node.bed.kubectl(*view))
    place_manifest(node, text)


def place_manifest(node: KubeletNode, text: str) -> None:
    """Give the kubelet another static pod, all at once."""
    manifest = node.path(MANIFEST)
    manifest.parent.mkdir(exist_ok=True)
    draft = manifest.with_name(f".{manifest.name}")
    draft.write_text(text)
    draft.chmod(0o600)
    draft.rename(manifest)


async def _load(node: KubeletNode, version: str, manifest: str, archive: Path) -> None:
    program = (await build.ensure([TOOLS[version]]))[TOOLS[version]].path
    image = yaml.safe_load(manifest)["spec"]["containers"][0]["image"]
    await asyncio.to_thread(program_image.save, archive, image, {"bin/kube-scheduler": program})
    await node.load_images(archive)


async def runs_with(node: KubeletNode, config: str) -> bool | None:
    """Whether the kube-scheduler that runs was told of that file; None where none runs."""
    look = "pgrep -x kube-scheduler | xargs -r -n1 -I{} cat /proc/{}/cmdline"
    words = await node.run_text(["sh", "-c", look])
    return config in words if words else None


async def place(bed: Bed, name: str, units: int) -> dict[str, Any]:
    """A pod's object once it is bound; it is deleted then."""
    await bed.create_pods([gpu_pod(name, units)])

    async def bound() -> dict[str, Any] | None:
        pod = await bed.api.get(f"{_PODS}/{name}")
        return pod if pod["spec"].get("nodeName") else None

    found = await until(bound, f"pod {name} to be bound", 90)
    assert found is not None
    await bed.api.delete(f"{_PODS}/{name}", gracePeriodSeconds="0")
    return found
