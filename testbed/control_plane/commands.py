"""The command lines of the components, as pure functions of the layout of a testbed.

What belongs here: flags and their reasons. What does not: paths (``testbed.control_plane.layout``),
binaries (``testbed.programs.binaries``) and starting processes (``devkit.process``).
"""

from collections.abc import Sequence
from pathlib import Path

from devkit.ports import LOOPBACK
from testbed.control_plane.layout import BedLayout

SERVICE_CIDR = "10.250.0.0/16"
POD_CIDR = "198.18.0.0/16"
"""Addresses of simulated pods: reserved for benchmarks (RFC 2544), so that no real host has them."""
API_ADDRESS = "192.0.2.1"
"""Endpoint of the Service "kubernetes": every node has this address and forwards it to the loopback of this
machine. Reserved for documentation (RFC 5737), so that no real host has it."""
KWOK_SELECTOR = "kwok.x-k8s.io/node=fake"
_OPEN_PATHS = "/healthz,/livez,/readyz,/metrics"
_ISSUER = "https://kubernetes.default.svc.cluster.local"
_LEASE_S = 40


def etcd(layout: BedLayout, binary: Path) -> list[str]:
    """Return the command line of etcd: data survives a crash of the process, but not of the machine."""
    return [
        str(binary),
        f"--name={layout.folder.name}",
        f"--data-dir={layout.data}/etcd",
        f"--listen-client-urls={layout.etcd_url}",
        f"--advertise-client-urls={layout.etcd_url}",
        f"--listen-peer-urls={layout.peer_url}",
        f"--initial-advertise-peer-urls={layout.peer_url}",
        f"--initial-cluster={layout.folder.name}={layout.peer_url}",
        "--unsafe-no-fsync",
        # The only member elects itself after one election timeout, which is most of its startup time.
        "--heartbeat-interval=20",
        "--election-timeout=100",
        f"--quota-backend-bytes={4 * 1024**3}",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
        "--log-level=warn",
        "--log-outputs=stderr",
    ]


def kube_apiserver(layout: BedLayout, binary: Path, *, audit: bool = False) -> list[str]:
    """Return the command line of the API server, with RBAC, the Node authorizer and aggregation."""
    pki = layout.pki
    return [
        str(binary),
        f"--etcd-servers={layout.etcd_url}",
        f"--bind-address={LOOPBACK}",
        # Endpoints must not have loopback addresses.
        f"--advertise-address={API_ADDRESS}",
        f"--secure-port={layout.ports.apiserver}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        # With the default of 0, watches are not terminated and shutdown takes a minute.
        "--shutdown-watch-termination-grace-period=2s",
        "--max-requests-inflight=4000",
        "--max-mutating-requests-inflight=2000",
        *_service_accounts(pki),
        *_aggregation(pki),
        *_kubelet_client(pki),
        *(_audit(layout) if audit else []),
    ]


def kube_controller_manager(layout: BedLayout, binary: Path, flags: Sequence[str] = ()) -> list[str]:
    """Return the command line of the controller manager, with client limits for 1,000 nodes."""
    pki = layout.pki
    return [
        str(binary),
        *_component(layout, "kube-controller-manager", layout.ports.controller_manager),
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--root-ca-file={pki}/ca.crt",
        f"--service-account-private-key-file={pki}/sa.key",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--controller-start-interval=0s",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        f"--kubeconfig={layout.kubeconfig('kube-controller-manager')}",
        *flags,
    ]


def kube_scheduler(layout: BedLayout, binary: Path, gates: Sequence[str] = ()) -> list[str]:
    """Return the command line of a scheduler that reads a KubeSchedulerConfiguration."""
    return [
        str(binary),
        *_component(layout, "kube-scheduler", layout.ports.scheduler),
        f"--config={layout.scheduler_config}",
        *([f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}"] if gates else []),
    ]


def kube_scheduler_legacy(layout: BedLayout, binary: Path) -> list[str]:
    """Return the command line of scheduler 1.22, which reads a Policy.

    It serves health and metrics over HTTP. Do not set a verbosity of 2 or more: it would exit because it
    cannot encode the configuration that it logs.
    """
    return [
        str(binary),
        f"--kubeconfig={layout.kubeconfig('kube-scheduler')}",
        f"--policy-config-file={layout.scheduler_config}",
        "--leader-elect=false",
        # Version 1.22 knows this API in v1beta1 only.
        "--feature-gates=CSIStorageCapacity=false",
        "--secure-port=0",
        f"--address={LOOPBACK}",
        f"--port={layout.ports.scheduler}",
        "--kube-api-qps=5000",
        "--kube-api-burst=5000",
    ]


def kwok(layout: BedLayout, binary: Path) -> list[str]:
    """Return the command line of kwok, which simulates the kubelet of annotated nodes, without its port."""
    return [
        str(binary),
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        f"--config={layout.kwok_config}",
        f"--manage-nodes-with-annotation-selector={KWOK_SELECTOR}",
        f"--node-lease-duration-seconds={_LEASE_S}",
        f"--cidr={POD_CIDR}",
        "--node-port=0",
        f"--server-address={LOOPBACK}:{layout.ports.kwok}",
    ]


def _component(layout: BedLayout, name: str, port: int) -> list[str]:
    kubeconfig = layout.kubeconfig(name)
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={layout.pki}/component.crt",
        f"--tls-private-key-file={layout.pki}/component.key",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--authorization-always-allow-paths={_OPEN_PATHS}",
    ]


def _service_accounts(pki: Path) -> list[str]:
    return [
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={pki}/sa.crt",
        f"--service-account-signing-key-file={pki}/sa.key",
    ]


def _aggregation(pki: Path) -> list[str]:
    return [
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy-client.crt",
        f"--proxy-client-key-file={pki}/front-proxy-client.key",
    ]


def _kubelet_client(pki: Path) -> list[str]:
    return [
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
    ]


def _audit(layout: BedLayout) -> list[str]:
    return [
        f"--audit-policy-file={layout.audit_policy}",
        f"--audit-log-path={layout.audit_log}",
        # One file, never rotated: the history must be complete.
        "--audit-log-maxsize=0",
    ]
