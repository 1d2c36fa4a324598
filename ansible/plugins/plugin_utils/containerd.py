"""Changes of containerd's config.toml for NVIDIA's runtime.

What belongs here: the decision, from the existing settings. What does not: text and files
(``plugin_utils.config_text``, the role container_runtime).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.config_text import ConfigTextError

_CRI_PLUGINS = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
_CRI_NAMES = {"cri", *_CRI_PLUGINS.values(), "io.containerd.cri.v1.images"}
_RUNC: Mapping[str, Any] = {"runtime_type": "io.containerd.runc.v2"}
_FIRST_V3 = (2, 0)
_FIRST_CDI = (1, 7)
_CDI_FOLDERS = ["/etc/cdi", "/var/run/cdi"]
"""Those of containerd without the setting, and those of NVIDIA's toolkit."""


def changes(
    config: Mapping[str, Any], *, release: str, default_runtime: str, binary: str, cdi: bool, path: str
) -> dict[str, Any]:
    """Return the changes of ``config`` for containerd ``release`` (1.7.27): runtime "nvidia" beside runc.

    The runtime "nvidia" has the settings of runc on this host with another program: settings of the user for
    runc, mainly the cgroup driver, apply to both. ``default_runtime`` is nvidia or runc. Raises
    ConfigTextError for an unknown layout of the file.
    """
    version = _version(config, release, path)
    plugin = _CRI_PLUGINS[version]
    settings = config.get("plugins", {}).get(plugin, {})
    containerd = settings.get("containerd", {})
    # Before 2.0, a file with any runtime replaces the built-in list of containerd, which removes runc.
    runc = containerd.get("runtimes", {}).get("runc", _RUNC)
    nvidia = {**runc, "options": {**runc.get("options", {}), "BinaryName": binary}}
    wanted: dict[str, Any] = {"containerd": {"runtimes": {"runc": runc, "nvidia": nvidia}}}
    if default_runtime == "nvidia" or containerd.get("default_runtime_name") == "nvidia":
        wanted["containerd"]["default_runtime_name"] = default_runtime
    if cdi and _numbers(release) >= _FIRST_CDI:
        wanted.update(enable_cdi=True, cdi_spec_dirs=_cdi_folders(settings.get("cdi_spec_dirs", [])))
    return {"version": version, **_enabled(config), "plugins": {plugin: wanted}}


def _cdi_folders(existing: list[str]) -> list[str]:
    """Return the folders of CDI specifications, with those of other vendors."""
    return [*existing, *(folder for folder in _CDI_FOLDERS if folder not in existing)]


def _version(config: Mapping[str, Any], release: str, path: str) -> int:
    version = config.get("version")
    if version in _CRI_PLUGINS:
        return version
    if version is None and not config.get("plugins"):
        return 3 if _numbers(release) >= _FIRST_V3 else 2
    raise ConfigTextError(
        f"{path}: version is {1 if version is None else version}, supported are 2 and 3: convert it "
        "with `containerd config migrate`"
    )


def _enabled(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the change that enables the CRI plugin: the default file of containerd.io disables it."""
    disabled = config.get("disabled_plugins", [])
    left = [name for name in disabled if name not in _CRI_NAMES]
    return {} if left == disabled else {"disabled_plugins": left}


def _numbers(release: str) -> tuple[int, int]:
    major, minor, *_rest = release.split(".")
    return int(major), int(minor)
