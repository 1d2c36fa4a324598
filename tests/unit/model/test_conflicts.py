"""What of a container's declaration is a conflict; ``core.test_conflicts`` has when it matters."""

import pytest

from gpushare.model.conflicts import OWN_PRELOAD, RULES, Declared, conflicts_of


def reasons(declared: Declared) -> list[str]:
    return [each.rule.reason for each in conflicts_of(declared)]


def test_every_rule_has_its_own_reason() -> None:
    assert len({rule.reason for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/ld.so.preload",
        "/etc/ld.so.preload/",
        "etc/ld.so.preload",
        "//etc/./ld.so.preload",
        "/etc/x/../ld.so.preload",
        "/../etc/ld.so.preload",
    ],
)
def test_a_path_is_found_in_every_spelling_that_runtimes_resolve_to_it(path: str) -> None:
    (conflict,) = conflicts_of(Declared(mounts=(path,)))
    assert conflict.rule is OWN_PRELOAD
    assert conflict.what == "has a mount on /etc/ld.so.preload"


@pytest.mark.parametrize(
    "path", ["/", "/etc", "/etc/", "/opt", "/etc/ld.so.preload.d", "/data/etc/ld.so.preload"]
)
def test_a_mount_above_or_beside_our_files_covers_none(path: str) -> None:
    assert reasons(Declared(mounts=(path,))) == []


@pytest.mark.parametrize(
    "path",
    [
        "/.gpushare",
        "/.gpushare/limit",
        "/.gpushare/region",
        "/.gpushare/libgpushare.so",
        "/.gpushare-library",
    ],
)
def test_a_mount_on_or_below_our_folder_is_a_conflict(path: str) -> None:
    assert reasons(Declared(mounts=(path,))) == ["own_files"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("libcuda.so.1", ["preloaded_driver"]),
        ("/lib/libtcmalloc.so:/usr/lib64/libcuda.so.580.65.06", ["preloaded_driver"]),
        ("/opt/datadog-packages/launcher.preload.so", []),
        (None, []),
    ],
)
def test_other_preloads_than_the_driver_are_harmless(value: str | None, found: list[str]) -> None:
    assert reasons(Declared((("LD_PRELOAD", value),))) == found


def test_a_variable_is_a_conflict_with_any_value() -> None:
    """NVIDIA's hook fails containers on cgroup v1 even if its variable is empty."""
    for value in ("", "0", "1024", None):
        assert reasons(Declared((("NVIDIA_GPU_MEMORY_LIMIT", value),))) == ["own_guarantee"]


def test_all_conflicts_are_found() -> None:
    variables = (("NVIDIA_VISIBLE_DEVICES", "all"), ("CUDA_MPS_PIPE_DIRECTORY", "/tmp"))  # noqa: S108 - as pods have it
    mounts = ("/run/nvidia-container-devices/all", "/etc/ld.so.preload")
    found = reasons(Declared(variables, mounts, user_namespace=True))
    assert found == ["own_devices", "own_device_mounts", "own_mps", "own_preload", "user_namespace"]
