"""Access of a daemon or tool: from a kubeconfig, or from the pod's service account."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from gpushare.adapters.kube.access import ApiAccess, text_of
from gpushare.adapters.kube.service_account import HOST_VARIABLE, from_service_account
from gpushare.errors import ConfigError

if TYPE_CHECKING:
    from kubernetes.aio.client.configuration import Configuration


async def load_access(kubeconfig: str | None = None, context: str | None = None) -> ApiAccess:
    """Load access from the kubeconfig (or several, as in KUBECONFIG) if given, else in-cluster.

    Raises ConfigError with the file and the reason.
    """
    found = await _from_files(kubeconfig, context) if kubeconfig else from_service_account(os.environ)
    return _through_proxy_of_environment(found)


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


def _through_proxy_of_environment(access: ApiAccess) -> ApiAccess:
    """Honour HTTPS_PROXY and NO_PROXY as kubectl does, unless the kubeconfig names a proxy."""
    url = urlsplit(access.host)
    if access.proxy is not None or proxy_bypass(url.hostname or ""):
        return access
    return replace(access, proxy=getproxies().get(url.scheme))


async def _from_files(paths: str, context: str | None) -> ApiAccess:
    _check_readable(paths)
    # Imported here: daemons with a service account save 20 MiB and 0.2 s.
    from kubernetes.aio.client.configuration import Configuration  # noqa: PLC0415 - see above
    from kubernetes.aio.config import ConfigException, load_kube_config  # noqa: PLC0415 - see above

    configuration = Configuration()
    try:
        await load_kube_config(
            config_file=paths, context=context, client_configuration=configuration, persist_config=False
        )
    except ConfigException as error:
        raise ConfigError(f"kubeconfig {paths}: {error}") from error
    except (AttributeError, TypeError) as error:  # the loader does not check types
        raise ConfigError(f"kubeconfig {paths}: is not a kubeconfig: {error}") from error
    except Exception as error:  # the loader passes on errors of YAML, TLS and exec plugins
        raise ConfigError(f"kubeconfig {paths}: {type(error).__name__}: {error}") from error
    if not _is_url(configuration.host):
        raise ConfigError(f"kubeconfig {paths}: server {configuration.host!r} is not like https://host:6443")
    return _access(configuration)


def _is_url(server: str) -> bool:
    try:
        url = urlsplit(server)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # of the host or the port
        return False


def _check_readable(paths: str) -> None:
    """Check that at least one file exists and all existing ones are readable: the loader ignores both."""
    existing = [path for path in paths.split(os.pathsep) if path and Path(path).exists()]
    if not existing:
        raise ConfigError(f"kubeconfig {paths}: no such file (set KUBECONFIG or --kubeconfig)")
    for path in existing:
        try:
            text_of(Path(path))
        except ConfigError as error:
            raise ConfigError(f"kubeconfig {error}") from error


def _access(configuration: "Configuration") -> ApiAccess:
    """Convert the fields that the loader sets; user and password become a Basic token."""

    async def authorization() -> str | None:
        settings = await configuration.auth_settings()
        return settings["BearerToken"]["value"] if "BearerToken" in settings else None

    return ApiAccess(
        host=configuration.host,
        authorization=authorization,
        ca_file=configuration.ssl_ca_cert,
        cert_file=configuration.cert_file,
        key_file=configuration.key_file,
        verify=configuration.verify_ssl,
        tls_server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )
