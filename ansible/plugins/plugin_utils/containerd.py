"""Changes of containerd's config.toml for NVIDIA's runtime.

What belongs here: the decision, from the existing settings. What does not: text and files
(``plugin_utils.config_text``, the role container_runtime).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.config_text import ConfigTextError

_CRI_PLUGINS = {
    2: "io.containerd.grpc.v1.cri",
    3: "io.containerd.cri.v1.runtime",
    4: "io.containerd.cri.v1.runtime",
}
"""By version of the file."""
_CRI_NAMES = {"cri", *_CRI_PLUGINS.values(), "io.containerd.cri.v1.images"}
_RUNC: Mapping[str, Any] = {"runtime_type": "io.containerd.runc.v2"}
_FIRST_V3 = _FIRST_MERGE = (2, 0)
_FIRST_CDI = (1, 7)
_CDI_FOLDERS = ["/etc/cdi", "/var/run/cdi"]
"""Those of containerd without the setting, and those of NVIDIA's toolkit."""


def changes(
    config: Mapping[str, Any],
    *,
    release: str,
    default_runtime: str,
    binary: str,
    cdi: bool,
    path: str,
    dump: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the changes of ``config`` for containerd ``release`` (1.7.27): runtime "nvidia" beside runc.

    The runtime "nvidia" has the settings of runc on this host with another program: settings of the user for
    runc, mainly the cgroup driver, apply to both. ``dump`` is the output of ``containerd config dump`` if
    the file imports others, which override it. ``default_runtime`` is nvidia or runc. Raises ConfigTextError
    for an unknown layout of the file.
    """
    version = _version(config, release, path)
    plugin = _CRI_PLUGINS[version]
    settings = config.get("plugins", {}).get(plugin, {})
    containerd = settings.get("containerd", {})
    runc = containerd.get("runtimes", {}).get("runc", _RUNC)
    used = _with_imports(runc, _runtimes(dump or {}).get("runc", {}))
    nvidia = {**used, "options": {**used.get("options", {}), "BinaryName": binary}}
    # Before 2.0, a file with any runtime replaces the built-in list of containerd, which removes runc. Later
    # it would override the settings of runc in files that are imported before this one.
    runtimes = {"nvidia": nvidia} if _numbers(release) >= _FIRST_MERGE else {"runc": runc, "nvidia": nvidia}
    wanted: dict[str, Any] = {"containerd": {"runtimes": runtimes}}
    if default_runtime == "nvidia" or containerd.get("default_runtime_name") == "nvidia":
        wanted["containerd"]["default_runtime_name"] = default_runtime
    if cdi and _numbers(release) >= _FIRST_CDI:
        wanted.update(enable_cdi=True, cdi_spec_dirs=_cdi_folders(settings.get("cdi_spec_dirs", [])))
    return {"version": version, **_enabled(config), "plugins": {plugin: wanted}}


def overridden(dump: Mapping[str, Any], *, default_runtime: str, binary: str) -> str:
    """Return what another file overrides in the settings that containerd uses, "" if nothing is known."""
    if not _containerd(dump):
        return ""
    nvidia = _runtimes(dump).get("nvidia")
    if nvidia is None:
        return "it has no runtime nvidia"
    found = nvidia.get("options", {}).get("BinaryName", "")
    if found != binary:
        return f'the runtime nvidia has BinaryName "{found}"'
    default = _containerd(dump).get("default_runtime_name", "")
    return f"default_runtime_name is {default}" if default_runtime == "nvidia" != default else ""


def _with_imports(runc: Mapping[str, Any], dumped: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of ``runc`` in a file, as changed by imported files; a dump has all defaults."""
    options = runc.get("options", {})
    found = {key: value for key, value in dumped.items() if key != "options" and (value or key in runc)}
    more = {key: value for key, value in dumped.get("options", {}).items() if value or key in options}
    return {**runc, **found, **({"options": {**options, **more}} if options or more else {})}


def _runtimes(dump: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _containerd(dump).get("runtimes", {})
    return found


def _containerd(dump: Mapping[str, Any]) -> Mapping[str, Any]:
    plugins = dump.get("plugins", {})
    found = (plugins.get(name, {}).get("containerd") for name in _CRI_PLUGINS.values())
    return next(filter(None, found), {})


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
        f"{path}: version is {1 if version is None else version}, supported are 2 to 4: convert it "
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
