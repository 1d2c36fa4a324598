"""Access as a context of a kubeconfig: address, TLS and credentials."""

import base64
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from gpushare.adapters.kube.access import ApiAccess, Pem, bearer, text_of
from gpushare.adapters.kube.exec_plugin import ExecCredentials, RenewedToken, name_of, obtain
from gpushare.adapters.kube.kubeconfig import (
    ExecConfig,
    KubeconfigCluster,
    KubeconfigEntry,
    KubeconfigUser,
    Selected,
    selected,
)
from gpushare.adapters.kube.service_account import TokenFile
from gpushare.errors import ConfigError
from gpushare.model.urls import is_http_url

_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Settings of a cluster for exec plugins."""


async def access_of(paths: str, context: str | None) -> ApiAccess:
    """Return access as a context of the kubeconfig files; default: the current one. Raises ConfigError."""
    chosen = selected(paths, context)
    try:
        access = await _access(chosen)
        access.ssl_context()
    except ConfigError as error:
        raise ConfigError(f"kubeconfig {paths}: context {chosen.context!r}: {error}") from error
    return access


async def _access(chosen: Selected) -> ApiAccess:
    cluster, user = chosen.cluster.value, chosen.user.value
    if user.impersonate:
        raise ConfigError(
            f"user {chosen.user.name!r} impersonates {user.impersonate!r} (as), which gpushare does not do: "
            "select a context with another user"
        )
    host, ca = _server(cluster), _ca(chosen.cluster)
    plugin = user.exec if user.exec and not (user.token or user.token_file) else None
    made, renewed = await _from_plugin(plugin, chosen, ca) if plugin else (ExecCredentials(), None)
    return ApiAccess(
        host=host,
        authorization=renewed.header if renewed else _authorization(chosen.user),
        credentials=name_of(_command(plugin, chosen)) if plugin else "",
        rejected=renewed.reject if renewed else lambda: None,
        ca=ca,
        cert=made.cert.encode() or _pem(chosen.user, user.client_certificate, user.client_certificate_data),
        key=made.key.encode() or _pem(chosen.user, user.client_key, user.client_key_data),
        verify=not cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name or None,
        proxy=_proxy(cluster),
    )


def _server(cluster: KubeconfigCluster) -> str:
    server = (cluster.server or "").rstrip("/")
    if not is_http_url(server):
        raise ConfigError(f"server {cluster.server or ''!r} is not like https://host:6443")
    return server


def _proxy(cluster: KubeconfigCluster) -> str | None:
    """As kubectl does, the client verifies one with https with the CA of the cluster."""
    if cluster.proxy_url and not is_http_url(cluster.proxy_url):  # the value may have a password
        raise ConfigError(
            "proxy-url of the cluster is not like http://host:3128, and gpushare uses no other kind of proxy"
        )
    return cluster.proxy_url or None


def _ca(cluster: KubeconfigEntry[KubeconfigCluster]) -> Pem | None:
    return _pem(cluster, cluster.value.certificate_authority, cluster.value.certificate_authority_data)


def _pem(entry: KubeconfigEntry[Any], path: str | None, data: str | None) -> Pem | None:
    """The data overrides the path, as in kubectl."""
    if not data:
        return entry.path(path) if path else None
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except ValueError as error:
        raise ConfigError(f"data of {entry.name!r} is not base64: {error}") from error


def _authorization(user: KubeconfigEntry[KubeconfigUser]) -> Callable[[], Awaitable[str | None]]:
    """A token file comes before a token, which comes before others."""
    fields = user.value
    if fields.token_file:
        return TokenFile(user.path(fields.token_file), time.monotonic).header
    if fields.token:
        return _constant(bearer(fields.token))
    if fields.auth_provider:
        raise ConfigError(
            f"auth-provider {fields.auth_provider.name!r} is not supported, nor is it by kubectl since 1.26: "
            "use exec"
        )
    if fields.username:
        pair = f"{fields.username}:{fields.password or ''}"
        return _constant(f"Basic {base64.b64encode(pair.encode()).decode()}")
    return _constant(None)


def _constant(header: str | None) -> Callable[[], Awaitable[str | None]]:
    async def authorization() -> str | None:
        return header

    return authorization


async def _from_plugin(
    plugin: ExecConfig, chosen: Selected, ca: Pem | None
) -> tuple[ExecCredentials, RenewedToken]:
    """Run the plugin once."""
    cluster = _described(chosen.cluster, ca) if plugin.provide_cluster_info else None
    run = partial(obtain, plugin, _command(plugin, chosen), cluster)
    first = await run()
    return first, RenewedToken(first, run)


def _command(plugin: ExecConfig, chosen: Selected) -> str:
    """A command with a slash is a path, which is relative to the kubeconfig."""
    return str(chosen.user.path(plugin.command)) if "/" in plugin.command else plugin.command


def _described(cluster: KubeconfigEntry[KubeconfigCluster], ca: Pem | None) -> Mapping[str, Any]:
    """The cluster as plugins get it, with the content of the CA's file."""
    fields = cluster.value
    content = text_of(ca).encode() if isinstance(ca, Path) else ca
    described = {
        "server": fields.server,
        "tls-server-name": fields.tls_server_name,
        "insecure-skip-tls-verify": fields.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(content).decode() if content else None,
        "proxy-url": fields.proxy_url,
        "config": next((each.extension for each in fields.extensions or () if each.name == _EXTENSION), None),
    }
    return {name: value for name, value in described.items() if value}
