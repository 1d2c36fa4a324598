"""The Job that edits the static pod of kube-scheduler on the control plane nodes, one after the other.

It runs ``gpushare scheduler-manifest``, which can also be run by hand. Its pods start together, one per
node, and edit in order: each lists the pods of the Job. Besides that, it may only create events. If a pod is
killed, the kubelet of its node restarts it, without a scheduler, and it finishes or restores.
"""

from typing import Final

from components.config import Installer, Presence
from components.config_extender import Extender
from components.config_pods import CONTROL_PLANE_TAINTS, NODE_CRITICAL
from components.manifests.certificates import makes_certificates
from components.manifests.parts import (
    Object,
    account,
    container_security,
    control_plane_terms,
    field_env,
    host_path,
    labels,
    metadata,
    placement,
    required_anti_affinity,
    role,
    role_binding,
    rule,
    sizes,
)
from gpushare.contract import CLIENT_TLS_SECRET, TLS_CA, TLS_CERT, TLS_KEY
from gpushare.contract import INSTALLER_NAME as NAME
from gpushare.kubescheduler.config import KubernetesVersion

_FOLDER: Final = "/etc/kubernetes"
_LOGS: Final = "/var/log/pods"
_ROOT: Final = "/host"
_LABELS: Final = labels(NAME)
_RESTARTS: Final = 3
"""Of all pods together: a pod that was killed finishes, a pod that failed fails again."""
_EXTENDER_S: Final = 300
"""Time for the extender to pull its image and answer, if nothing else waits for it."""
_GRACE_S: Final = 150
"""Time to restore the manifest and wait for the scheduler after SIGTERM."""
_VERBS: Final = {Presence.PRESENT: "install", Presence.ABSENT: "restore"}


def objects(settings: Installer, extender: Extender, version: KubernetesVersion) -> list[Object]:
    """A Job with one pod per control plane node, and its role."""
    copies = makes_certificates(extender) and settings.state is Presence.PRESENT
    return [
        account(NAME),
        role(NAME, [rule("", ["pods"], ["list"]), rule("", ["events"], ["create"])]),
        role_binding(NAME, NAME, NAME),
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata(NAME, _LABELS),
            "spec": {
                "parallelism": settings.control_planes,
                "completions": settings.control_planes,
                "backoffLimit": _RESTARTS,
                "template": {
                    "metadata": {"labels": dict(_LABELS)},
                    "spec": _pod(settings, version, copies=copies),
                },
            },
        },
    ]


def _pod(settings: Installer, version: KubernetesVersion, *, copies: bool) -> Object:
    """It uses the processes and the network of its node, like kube-scheduler.

    With ``copies`` it starts once there is a client certificate of the scheduler, to copy to the node.
    """
    terms = {"nodeSelectorTerms": control_plane_terms(version)}
    return {
        "serviceAccountName": NAME,
        "hostNetwork": True,
        "hostPID": True,
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": _GRACE_S,
        **placement(CONTROL_PLANE_TAINTS, NODE_CRITICAL),
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms},
            "podAntiAffinity": required_anti_affinity(_LABELS),
        },
        "containers": [_container(settings, version, copies=copies)],
        "volumes": [
            host_path("kubernetes", _FOLDER, "Directory"),
            host_path("logs", _LOGS, "DirectoryOrCreate"),
            *([_CERTIFICATES] if copies else []),
        ],
    }


_CERTIFICATES: Final[Object] = {
    "name": "certificates",
    "secret": {
        "secretName": CLIENT_TLS_SECRET,
        "defaultMode": 0o400,
        "items": [{"key": key, "path": key} for key in (TLS_CERT, TLS_KEY, TLS_CA)],
    },
}
_CERTIFICATES_FOLDER: Final = "/certificates"


def _container(settings: Installer, version: KubernetesVersion, *, copies: bool) -> Object:
    certificates = {"name": "certificates", "mountPath": _CERTIFICATES_FOLDER, "readOnly": True}
    flags = [*_flags(settings, version), *([f"--certificates={_CERTIFICATES_FOLDER}"] if copies else [])]
    return {
        "name": NAME,
        "image": settings.image,
        "command": ["gpushare", "scheduler-manifest", _VERBS[settings.state], *flags],
        "env": [field_env("HOST_IP", "status.hostIP"), field_env("POD_NAME", "metadata.name")],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": sizes("100m", "128Mi"),
        # The files of the control plane belong to root.
        "securityContext": {"runAsUser": 0, **container_security()},
        "volumeMounts": [
            {"name": "kubernetes", "mountPath": f"{_ROOT}{_FOLDER}"},
            {"name": "logs", "mountPath": f"{_ROOT}{_LOGS}", "readOnly": True},
            *([certificates] if copies else []),
        ],
    }


def _flags(settings: Installer, version: KubernetesVersion) -> list[str]:
    """The node address, because NodePorts are not always served on loopback."""
    common = [f"--root={_ROOT}", f"--control-planes={settings.control_planes}"]
    if settings.state is Presence.ABSENT:
        return common
    url = f"--url={settings.url}" if settings.url else "--address=$(HOST_IP)"
    return [*common, url, f"--extender-wait={_EXTENDER_S}", f"--kubernetes-version={version}"]
