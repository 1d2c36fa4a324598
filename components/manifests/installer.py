"""The Job that edits the static pod of kube-scheduler on the control plane's nodes.

It runs ``gpushare scheduler-manifest``, which does the work and can be run by hand too. It changes files
of its node and asks nobody, so it has no rights in the API.
"""

from typing import Final

from components.config import Installer, State
from components.manifests.parts import (
    Object,
    apart,
    container_security,
    control_plane_terms,
    control_plane_tolerations,
    field_env,
    host_path,
    labels,
    metadata,
    sizes,
)
from gpushare.model.scheduler_config import KubernetesVersion

NAME: Final = "gpushare-installer"
_FOLDER: Final = "/etc/kubernetes"
_ROOT: Final = "/host"
_LABELS: Final = labels(NAME)
_TRIES: Final = 3
_STAY_S: Final = 30
"""A pod that is gone keeps no other off its node."""
_VERBS: Final = {State.PRESENT: "install", State.ABSENT: "restore"}


def objects(settings: Installer, version: KubernetesVersion) -> list[Object]:
    """A Job with one pod for each node of the control plane: they start together and keep apart."""
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata(NAME, _LABELS),
            "spec": {
                "parallelism": settings.control_planes,
                "completions": settings.control_planes,
                "backoffLimit": _TRIES * settings.control_planes,
                "template": {"metadata": {"labels": dict(_LABELS)}, "spec": _pod(settings, version)},
            },
        }
    ]


def _pod(settings: Installer, version: KubernetesVersion) -> Object:
    terms = {"nodeSelectorTerms": control_plane_terms()}
    return {
        "automountServiceAccountToken": False,
        "priorityClassName": "system-node-critical",
        "restartPolicy": "OnFailure",
        "tolerations": control_plane_tolerations(),
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms},
            "podAntiAffinity": apart(_LABELS),
        },
        "containers": [_container(settings, version)],
        "volumes": [host_path("kubernetes", _FOLDER, "Directory")],
    }


def _container(settings: Installer, version: KubernetesVersion) -> Object:
    return {
        "name": NAME,
        "image": settings.image,
        "command": ["gpushare", "scheduler-manifest", _VERBS[settings.state], *_flags(settings, version)],
        "env": [field_env("HOST_IP", "status.hostIP")],
        "resources": sizes("100m", "128Mi"),
        # The files of the control plane belong to root.
        "securityContext": {"runAsUser": 0, **container_security()},
        "volumeMounts": [{"name": "kubernetes", "mountPath": f"{_ROOT}{_FOLDER}"}],
    }


def _flags(settings: Installer, version: KubernetesVersion) -> list[str]:
    """Where NodePorts are not served on loopback, they are on the node's own address."""
    common = [f"--root={_ROOT}", f"--stay={_STAY_S}"]
    if settings.state is State.ABSENT:
        return common
    url = f"--url={settings.url}" if settings.url else "--address=$(HOST_IP)"
    return [*common, url, f"--kubernetes-version={version}"]
