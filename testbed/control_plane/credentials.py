"""The identities of a testbed: its certificates and kubeconfigs on disk.

What belongs here: which identity gets which certificate. What does not: creating certificates
(``testbed.control_plane.pki``), and rights, which are RBAC objects.
"""

import hashlib
import re
import ssl
from collections.abc import Sequence
from pathlib import Path

from devkit.ports import LOOPBACK
from testbed.control_plane.api import tls
from testbed.control_plane.layout import BedLayout
from testbed.control_plane.pki import Authority, PkiPair, groups_of, kubeconfig, signing_key, write_private

_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    LOOPBACK,
    "10.250.0.1",
)
_CLIENTS = {
    "admin": ("testbed-admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("testbed-kwok", ("system:masters",)),
}


class BedCredentials:
    """The certificates of one testbed, and the authority to issue more."""

    def __init__(self, layout: BedLayout, authority: Authority) -> None:
        self._layout = layout
        self._authority = authority

    @classmethod
    def create(cls, layout: BedLayout) -> "BedCredentials":
        """Create the authorities and write the files that the flags of the components name."""
        layout.pki.mkdir(parents=True, exist_ok=True)
        authority, front = Authority.create("testbed"), Authority.create("testbed-front-proxy")
        pairs = {
            "ca": authority.pair(),
            "front-proxy-ca": front.pair(),
            "front-proxy-client": front.client("front-proxy-client"),
            "apiserver": authority.server("kube-apiserver", _SERVER_NAMES),
            "component": authority.server("component", ("localhost", LOOPBACK)),
            "kubelet-client": authority.client("kube-apiserver-kubelet-client", ("system:masters",)),
            "sa": signing_key(),
        }
        for stem, pair in pairs.items():
            pair.write(layout.pki, stem)
        credentials = cls(layout, authority)
        for who, (user, groups) in _CLIENTS.items():
            credentials._write(layout.kubeconfig(who), who, authority.client(user, groups))
        return credentials

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig for any user name; the groups of a service account are added.

        Raises ConfigError for names of more than 64 characters.
        """
        everything = tuple(dict.fromkeys((*groups_of(user), *groups)))
        stem = _file_stem(user, everything)
        path = self._layout.folder / "users" / f"{stem}.kubeconfig"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            self._write(path, stem, self._authority.client(user, everything))
        return path

    def server(self, name: str, hosts: Sequence[str]) -> PkiPair:
        """Return a server certificate for ``hosts``, signed by the authority of the testbed."""
        return self._authority.server(name, hosts)

    def context(self, user: str | None = None, groups: Sequence[str] = ()) -> ssl.SSLContext:
        """Return the TLS context of a user, or of the admin."""
        stem = "admin"
        if user is not None:
            stem = self.kubeconfig_for(user, groups).stem
        pki = self._layout.pki
        return tls(pki / "ca.crt", pki / f"{stem}.crt", pki / f"{stem}.key")

    def _write(self, path: Path, stem: str, pair: PkiPair) -> None:
        pki = self._layout.pki
        pair.write(pki, stem)
        text = kubeconfig(self._layout.api_url, pki / "ca.crt", pki / f"{stem}.crt", pki / f"{stem}.key")
        write_private(path, text.encode())


def _file_stem(user: str, groups: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join((user, *groups)).encode()).hexdigest()[:8]
    return re.sub(r"[^A-Za-z0-9.-]+", "_", user) + f"-{digest}"
