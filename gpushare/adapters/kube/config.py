"""Credentials for the Kubernetes API: a kubeconfig, or the pod's service account."""

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import structlog
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME

from gpushare.errors import ConfigError

log = structlog.get_logger()

DEFAULT_KUBECONFIG = Path("~/.kube/config")
_MAX_CONNECTIONS = 256


async def load_configuration(kubeconfig: str | None = None, context: str | None = None) -> Configuration:
    """The client configuration for a daemon: the kubeconfig if one is named, else in-cluster.

    Raises ConfigError with the file and the reason.
    """
    configuration = Configuration()
    configuration.connection_pool_maxsize = _MAX_CONNECTIONS
    if kubeconfig:
        await _from_file(configuration, kubeconfig, context)
    else:
        _from_service_account(configuration)
    _use_proxy_of_environment(configuration)
    return configuration


def user_kubeconfig(flag: str | None) -> str:
    """The kubeconfig that kubectl would take: the flag, else KUBECONFIG, else ~/.kube/config."""
    return flag or os.environ.get("KUBECONFIG") or str(DEFAULT_KUBECONFIG.expanduser())


def _use_proxy_of_environment(configuration: Configuration) -> None:
    """Honour HTTPS_PROXY and NO_PROXY as kubectl does, unless the kubeconfig names a proxy."""
    url = urlsplit(configuration.host)
    if configuration.proxy is None and not proxy_bypass(url.hostname or ""):
        configuration.proxy = getproxies().get(url.scheme)


async def _from_file(configuration: Configuration, path: str, context: str | None) -> None:
    _check_readable(path)
    try:
        await load_kube_config(
            config_file=path, context=context, client_configuration=configuration, persist_config=False
        )
    except ConfigException as error:
        raise ConfigError(f"kubeconfig {path}: {error}") from error
    except Exception as error:  # the loader lets through whatever YAML, TLS or exec plugins raise
        raise ConfigError(f"kubeconfig {path}: {type(error).__name__}: {error}") from error


def _check_readable(paths: str) -> None:
    """At least one of the files exists and all existing ones can be read (the loader is silent)."""
    existing = [path for path in paths.split(os.pathsep) if path and Path(path).exists()]
    if not existing:
        raise ConfigError(f"kubeconfig {paths}: no such file (set KUBECONFIG or --kubeconfig)")
    for path in existing:
        try:
            if not Path(path).read_text().strip():
                raise ConfigError(f"kubeconfig {path}: is empty")
        except OSError as error:
            raise ConfigError(f"kubeconfig {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"kubeconfig {path}: is no text: {error}") from error


def _from_service_account(configuration: Configuration) -> None:
    try:
        load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError, UnicodeDecodeError) as error:
        if SERVICE_HOST_ENV_NAME in os.environ:
            raise ConfigError(f"service account of this pod: {error}") from error
        raise ConfigError(
            f"no kubeconfig given and not in a cluster ({error}); set KUBECONFIG or --kubeconfig"
        ) from error
    configuration.refresh_api_key_hook = _careful(configuration.refresh_api_key_hook)


def _careful(refresh: Callable[[Configuration], None]) -> Callable[[Configuration], None]:
    """The cluster renews the token's file; where it cannot be read, the last token stays in use."""
    told = ""

    def hook(configuration: Configuration) -> None:
        nonlocal told
        try:
            refresh(configuration)
            told = ""
        except (ConfigException, OSError, UnicodeDecodeError) as error:
            if told != str(error):
                log.warning("token_not_renewed", reason=str(error))
            told = str(error)

    return hook
