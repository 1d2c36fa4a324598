"""containerd's settings for NVIDIA's runtime, by layout, release and existing settings."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.config_text import ConfigTextError, merged
from ansible_collections.gpushare.nodes.plugins.plugin_utils.containerd import changes, overridden

V2 = "io.containerd.grpc.v1.cri"
V3 = "io.containerd.cri.v1.runtime"
FILE = "/etc/containerd/config.toml"
BINARY = "/usr/bin/nvidia-container-runtime"


def changed(config: dict[str, Any], release: str = "1.7.27", **options: Any) -> dict[str, Any]:
    settings = {"default_runtime": "nvidia", "binary": BINARY, "cdi": True, "path": FILE, **options}
    return merged(config, changes(config, release=release, **settings), FILE)


def with_runtimes(runtimes: dict[str, Any], **containerd: Any) -> dict[str, Any]:
    return {"version": 2, "plugins": {V2: {"containerd": {"runtimes": runtimes, **containerd}}}}


@pytest.mark.parametrize(
    ("release", "version", "plugin"),
    [("1.6.20", 2, V2), ("1.7.27", 2, V2), ("2.0.0", 3, V3), ("2.2.9", 3, V3), ("2.3.1", 3, V3)],
)
def test_an_empty_file_gets_the_layout_of_the_release(release: str, version: int, plugin: str) -> None:
    config = changed({}, release)
    assert config["version"] == version
    containerd = config["plugins"][plugin]["containerd"]
    assert containerd["default_runtime_name"] == "nvidia"
    assert containerd["runtimes"]["nvidia"]["options"] == {"BinaryName": BINARY}


def test_the_layout_of_the_file_overrides_the_release() -> None:
    assert V2 in changed({"version": 2}, "2.2.9")["plugins"]
    assert V3 in changed({"version": 4}, "2.3.1")["plugins"]


def test_runc_is_added_because_older_releases_drop_it_beside_another_runtime() -> None:
    runtimes = changed({}, "1.6.20")["plugins"][V2]["containerd"]["runtimes"]
    assert runtimes["runc"] == {"runtime_type": "io.containerd.runc.v2"}


def test_runc_is_not_added_to_later_releases_where_it_would_override_other_files() -> None:
    assert "runc" not in changed({}, "2.0.0")["plugins"][V3]["containerd"]["runtimes"]


def dumped(version: int = 3, **runtimes: Any) -> dict[str, Any]:
    plugin = {2: V2}.get(version, V3)
    containerd = {"default_runtime_name": "nvidia", "runtimes": runtimes}
    return {"version": version, "plugins": {plugin: {"containerd": containerd}}}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_nvidia_gets_what_an_imported_file_sets_for_runc(version: int) -> None:
    own = {"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": True, "Root": ""}}
    used = {"SystemdCgroup": False, "Root": "/r", "ShimCgroup": "", "IoUid": 0}
    dump = dumped(version, runc={**own, "base_runtime_spec": "/x", "snapshotter": "", "options": used})
    runtimes = changed(with_runtimes({"runc": own}), dump=dump)["plugins"][V2]["containerd"]["runtimes"]
    assert runtimes["runc"] == own
    assert runtimes["nvidia"] == {
        **own,
        "base_runtime_spec": "/x",
        "options": {"SystemdCgroup": False, "Root": "/r", "BinaryName": BINARY},
    }


OURS = {"options": {"BinaryName": BINARY}}


@pytest.mark.parametrize(
    ("dump", "wanted", "problem"),
    [
        (dumped(nvidia=OURS), "nvidia", ""),
        (dumped(2, nvidia=OURS), "nvidia", ""),
        (dumped(runc={}), "nvidia", "it has no runtime nvidia"),
        ({}, "nvidia", ""),
        (dumped(nvidia={"options": {}}), "nvidia", 'the runtime nvidia has BinaryName ""'),
        (dumped(nvidia=OURS), "runc", ""),
    ],
)
def test_what_another_file_overrides_is_named(dump: dict[str, Any], wanted: str, problem: str) -> None:
    assert overridden(dump, default_runtime=wanted, binary=BINARY) == problem


def test_another_default_runtime_is_named_if_nvidia_is_wanted() -> None:
    containerd = {"default_runtime_name": "runc", "runtimes": {"nvidia": OURS}}
    dump = {"version": 3, "plugins": {V3: {"containerd": containerd}}}
    problem = "default_runtime_name is runc"
    assert overridden(dump, default_runtime="nvidia", binary=BINARY) == problem
    assert overridden(dump, default_runtime="runc", binary=BINARY) == ""


def test_nvidia_gets_the_settings_of_runc() -> None:
    runc = {
        "runtime_type": "io.containerd.runc.v2",
        "options": {"SystemdCgroup": True},
        "base_runtime_spec": "/x",
    }
    runtimes = changed(with_runtimes({"runc": runc}))["plugins"][V2]["containerd"]["runtimes"]
    assert runtimes["runc"] == runc
    assert runtimes["nvidia"] == {**runc, "options": {"SystemdCgroup": True, "BinaryName": BINARY}}


def test_other_runtimes_and_plugins_are_kept() -> None:
    config = {**with_runtimes({"kata": {"runtime_type": "k"}}), "root": "/data"}
    after = changed(config)
    assert after["root"] == "/data"
    assert after["plugins"][V2]["containerd"]["runtimes"]["kata"] == {"runtime_type": "k"}


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        (None, "nvidia", "nvidia"),
        ("kata", "nvidia", "nvidia"),
        (None, "runc", None),
        ("kata", "runc", "kata"),
        ("nvidia", "runc", "runc"),
    ],
)
def test_only_our_default_runtime_is_changed(before: str | None, wanted: str, after: str | None) -> None:
    config = with_runtimes({}, **({"default_runtime_name": before} if before else {}))
    containerd = changed(config, default_runtime=wanted)["plugins"][V2]["containerd"]
    assert containerd.get("default_runtime_name") == after


@pytest.mark.parametrize(
    ("release", "options", "found"),
    [("1.6.33", {}, None), ("1.7.0", {}, True), ("2.1.4", {"cdi": False}, None)],
)
def test_cdi_is_enabled_if_the_release_supports_it(
    release: str, options: dict[str, Any], found: object
) -> None:
    (plugin,) = changed({}, release, **options)["plugins"].values()
    assert plugin.get("enable_cdi") is found


@pytest.mark.parametrize(("version", "plugin"), [(2, V2), (3, V3)])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, ["/etc/cdi", "/var/run/cdi"]),
        ({"cdi_spec_dirs": []}, ["/etc/cdi", "/var/run/cdi"]),
        ({"cdi_spec_dirs": ["/srv/cdi"]}, ["/srv/cdi", "/etc/cdi", "/var/run/cdi"]),
        ({"cdi_spec_dirs": ["/var/run/cdi", "/srv/cdi"]}, ["/var/run/cdi", "/srv/cdi", "/etc/cdi"]),
    ],
)
def test_folders_of_other_cdi_specifications_are_kept(
    version: int, plugin: str, before: dict[str, Any], after: list[str]
) -> None:
    config = {"version": version, "plugins": {plugin: before}}
    assert changed(config, "2.1.4")["plugins"][plugin]["cdi_spec_dirs"] == after


def test_the_cri_plugin_is_enabled_and_others_stay_disabled() -> None:
    config = changed({"disabled_plugins": ["cri", "io.containerd.snapshotter.v1.zfs"]})
    assert config["disabled_plugins"] == ["io.containerd.snapshotter.v1.zfs"]
    assert "disabled_plugins" not in changed({})


@pytest.mark.parametrize("config", [{"plugins": {"cri": {}}}, {"version": 1}, {"version": 9}])
def test_other_layouts_are_refused_with_the_fix(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigTextError, match="containerd config migrate"):
        changed(config)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"disabled_plugins": ["cri"]},
        with_runtimes({"runc": {"options": {"a": 1}}}),
        {"version": 2, "plugins": {V2: {"cdi_spec_dirs": ["/srv/cdi"]}}},
    ],
)
def test_a_second_run_changes_nothing(config: dict[str, Any]) -> None:
    once = changed(config)
    assert changed(once) == once
