"""The configuration of a stack and the access to its cluster, as the engine of Pulumi has them.

Secrets stay secrets: only the kubeconfig may be one, because everything else is readable in the cluster.
"""

from typing import Final

import pulumi
from pulumi.runtime import get_config_env, is_config_secret

from components.cluster import advice_on, check_cluster
from components.config import Stack
from components.kubeconfig import is_content
from components.preflight import read_cluster
from components.stack import from_engine
from gpushare.errors import ApiError, ConfigError

_KUBECONFIG: Final = "kubeconfig"


def configuration() -> dict[str, object]:
    """The values of all keys of the project. Raises ConfigError for a secret that would not stay one."""
    config = pulumi.Config()
    prefix = f"{config.name}:"
    keys = [key.removeprefix(prefix) for key in get_config_env() if key.startswith(prefix)]
    secrets = {key for key in keys if is_config_secret(prefix + key)}
    _check_secrecy(secrets, config.get(_KUBECONFIG) or "")
    return from_engine({prefix + key: config.get(key) or "" for key in keys})


def _check_secrecy(secrets: set[str], kubeconfig: str) -> None:
    for key in sorted(secrets - {_KUBECONFIG}):
        raise ConfigError(
            f"{key}: a secret, but its values are readable in the cluster and in the state; "
            f"set it without --secret, because only {_KUBECONFIG} can be one"
        )
    if is_content(kubeconfig) and _KUBECONFIG not in secrets:
        raise ConfigError(
            f"{_KUBECONFIG}: credentials in plain text; set a path, or the text by pulumi config set --secret"
        )


def kubeconfig_of(stack: Stack) -> pulumi.Input[str] | None:
    """The configured kubeconfig with its secrecy; None as kubectl."""
    is_secret = is_config_secret(f"{pulumi.Config().name}:{_KUBECONFIG}")
    return pulumi.Output.secret(stack.kubeconfig) if is_secret else stack.kubeconfig or None


def compare_with_cluster(stack: Stack) -> None:
    """Compare the settings with the cluster; only warn if it does not answer.

    Raises ConfigError for settings that do not fit it.
    """
    try:
        cluster = read_cluster(stack.kubeconfig, stack.context)
    except (ApiError, ConfigError) as error:
        if stack.cluster_uid:
            raise ConfigError(f"clusterUid: cannot be compared with the cluster: {error}") from error
        pulumi.log.warn(f"the settings are not compared with the cluster: {error}")
        return
    check_cluster(stack, cluster)
    for each in advice_on(stack, cluster):
        pulumi.log.warn(each)
