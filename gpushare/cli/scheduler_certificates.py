"""TLS files of kube-scheduler: copied to its node, and used to ask the extender as the scheduler does."""

import hashlib
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from gpushare.adapters.files import read_file
from gpushare.adapters.static_pods import problem_of, unverified
from gpushare.contract import (
    CLIENT_TLS_SECRET,
    EXTENDER_SERVER_NAME,
    TLS_CA,
    TLS_CERT,
    TLS_KEY,
)
from gpushare.errors import ConfigError, cause_of
from gpushare.kubescheduler.config import ExtenderConfig, Tls, version_url
from gpushare.kubescheduler.static_pod import FOLDER

_ANSWER_S: Final = 5.0
_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class ClientCertificates:
    """The files of a mounted or copied Secret; ``sources`` are their paths by those on the node.

    The name of the CA depends on its content: kube-scheduler reads a changed client certificate again, but a
    changed CA only when it starts, and the kubelet restarts it if the configuration changes.
    """

    tls: Tls
    sources: Mapping[str, Path]
    content: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path, server_name: str | None) -> Self:
        """Raises ConfigError if a file is missing."""
        found = {name: _read(folder / name) for name in (TLS_CA, TLS_CERT, TLS_KEY)}
        digest = hashlib.sha256(found[TLS_CA].encode()).hexdigest()[:_DIGITS]
        paths = {name: f"{FOLDER}/{name}" for name in found} | {TLS_CA: f"{FOLDER}/ca-{digest}.crt"}
        return cls(
            Tls(paths[TLS_CA], paths[TLS_CERT], paths[TLS_KEY], server_name or EXTENDER_SERVER_NAME),
            MappingProxyType({path: folder / name for name, path in paths.items()}),
            MappingProxyType({path: found[name] for name, path in paths.items()}),
        )


def _read(path: Path) -> str:
    content = read_file(path)
    if not content:
        raise ConfigError(
            f"nothing was changed: there is no {path}; mount or copy the Secret {CLIENT_TLS_SECRET}, which "
            "the stack fills (pulumi up)"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"nothing was changed: {path} is not PEM: {cause_of(error)}") from error


def extender_problem(extender: ExtenderConfig, at: Callable[[str], Path]) -> str:
    """Why the extender does not answer with the TLS files of the scheduler; ``at`` locates them."""
    name = extender.tls.server_name if extender.tls else None
    try:
        trust = _trust(extender.tls, at) if extender.tls else unverified()
    except OSError as error:
        return f"cannot use the TLS files: {cause_of(error)}"
    return problem_of(version_url(extender.url_prefix), trust, timeout_s=_ANSWER_S, server_name=name)


def _trust(tls: Tls, at: Callable[[str], Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=at(tls.ca_file))
    if tls.cert_file and tls.key_file:
        context.load_cert_chain(at(tls.cert_file), at(tls.key_file))
    return context
