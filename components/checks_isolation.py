"""Rules for what holds containers to their parts, as ``components.checks`` has the others. Pure."""

from components.config import ClusterSettings, DevicePlugin, Isolation, Mps
from components.forms import check_any_label, check_path, check_size
from gpushare.contract import LABEL_NO_ISOLATION
from gpushare.errors import ConfigError
from gpushare.model.modes import HELD, Mode, mode_of


def check_isolation(settings: ClusterSettings) -> None:
    """Raise ConfigError where a rule is broken, or where pools need what is not there."""
    if settings.isolation:
        _check_installer("isolation", settings.isolation)
    else:
        _check_held(settings.device_plugins)
    if settings.mps:
        _check_mps("mps", settings.mps)
    else:
        _check_served(settings.device_plugins)


def _check_held(plugins: tuple[DevicePlugin, ...]) -> None:
    """Without a library on their nodes these agents would refuse every pod."""
    for index, plugin in enumerate(plugins):
        mode, _ = mode_of(plugin.node_selector)
        if mode in HELD and plugin.node_selector.get(LABEL_NO_ISOLATION) != "true":
            raise ConfigError(
                f"isolation: missing; devicePlugins[{index}].nodeSelector {dict(plugin.node_selector)} holds "
                f"containers to their amounts; give {{}}, or select nodes with {LABEL_NO_ISOLATION}=true too"
            )


def _check_served(plugins: tuple[DevicePlugin, ...]) -> None:
    """Without control daemons on their nodes these agents would refuse every pod."""
    for index, plugin in enumerate(plugins):
        mode, _ = mode_of(plugin.node_selector)
        if mode is Mode.MPS:
            raise ConfigError(
                f"mps: missing; devicePlugins[{index}].nodeSelector {dict(plugin.node_selector)} shares "
                "cards by MPS; give {}"
            )


def _check_installer(where: str, isolation: Isolation) -> None:
    check_size(where, isolation.cpu, isolation.memory)
    check_any_label(f"{where}.nodeLabels", isolation.node_labels)
    check_path(f"{where}.kubeletRoot", isolation.kubelet_root)


def _check_mps(where: str, mps: Mps) -> None:
    check_size(where, mps.cpu, mps.memory)
    check_any_label(f"{where}.nodeLabels", mps.node_labels)
