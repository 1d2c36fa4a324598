"""Access of a daemon or tool: from a kubeconfig, or from the pod's service account."""

import os
from dataclasses import replace
from pathlib import Path

from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.service_account import (
    HOST_VARIABLE,
    from_service_account,
    namespace_of_service_account,
)
from gpushare.adapters.proxies import proxy_of
from gpushare.errors import ConfigError


async def load_access(kubeconfig: str | None = None, context: str | None = None) -> ApiAccess:
    """Load access from the kubeconfig (or several, as in KUBECONFIG) if given, else in-cluster.

    Raises ConfigError with the file and the reason.
    """
    _require_file(kubeconfig, context)
    if kubeconfig:
        # Imported here: daemons with a service account need no parser of YAML.
        from gpushare.adapters.kube.credentials import access_of  # noqa: PLC0415 - see above

        access = await access_of(kubeconfig, context)
    else:
        access = from_service_account(os.environ)
    # As kubectl honours HTTPS_PROXY and NO_PROXY, unless the kubeconfig names a proxy.
    return access if access.proxy else replace(access, proxy=proxy_of(access.host, os.environ))


def user_kubeconfig(flag: str | None) -> str | None:
    """Return the kubeconfig that kubectl would use: the flag, else KUBECONFIG, else ~/.kube/config.

    None stands for the service account: no flag, and the file does not exist.
    """
    if flag:
        return flag
    named = os.environ.get("KUBECONFIG")
    if named:
        return kubeconfig_in_pod(named)
    default = Path("~/.kube/config").expanduser()
    return str(default) if default.exists() else None


def kubeconfig_in_pod(paths: str | None) -> str | None:
    """Return the kubeconfig of a pod's manifest; None for the service account, if no path is a file.

    If a host path is missing, container runtimes mount an empty directory: kubeadm nodes have no
    ``kubelet.kubeconfig``. Outside pods the paths are returned unchanged, so that a typo is an error.
    """
    if not paths or HOST_VARIABLE not in os.environ:
        return paths
    return paths if any(Path(path).is_file() for path in paths.split(os.pathsep)) else None


def user_namespace(kubeconfig: str | None, context: str | None) -> str:
    """Return kubectl's namespace without ``-n``: that of the context, or of the pod. Raises ConfigError."""
    from gpushare.adapters.kube.kubeconfig import DEFAULT_NAMESPACE, selected  # noqa: PLC0415 - see above

    _require_file(kubeconfig, context)
    if kubeconfig:
        return selected(kubeconfig, context).namespace
    return namespace_of_service_account() or DEFAULT_NAMESPACE


def _require_file(kubeconfig: str | None, context: str | None) -> None:
    """A context is one of a kubeconfig; the service account is not what the user has selected."""
    if context and not kubeconfig:
        raise ConfigError(f"context {context!r}: there is no kubeconfig (set KUBECONFIG or --kubeconfig)")
