from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.inventory import problems

GROUPS = {"all": ["cp", "a", "b"], "kube_control_plane": ["cp"], "gpu_nodes": ["a", "b"]}
OPTIONS: dict[str, dict[str, Any]] = {
    "nvidia_driver_reboot": {"type": "bool"},
    "nvidia_driver_version": {"type": "str"},
    "nvidia_driver_packages": {"type": "list"},
    "nvidia_driver_reboot_timeout": {"type": "int"},
    "nvidia_driver_kernel_module": {"type": "str", "choices": ["dkms", "precompiled"]},
    "validate_driver_version": {"type": "str"},
    "preflight_min_free_mib": {"type": "dict"},
}
WANTED = ("kube_control_plane", "gpu_nodes")


def of_variables(**values: Any) -> list[str]:
    return problems(GROUPS, {"a": values}, OPTIONS, ("nvidia_driver", "preflight"), WANTED)


def test_a_good_inventory_has_no_problems() -> None:
    assert not of_variables(
        nvidia_driver_reboot=True,
        nvidia_driver_version="535.183.01",
        nvidia_driver_packages=[],
        nvidia_driver_reboot_timeout=60,
        nvidia_driver_kernel_module="dkms",
        preflight_min_free_mib={"/": 1},
    )


@pytest.mark.parametrize("hosts", [[], None])
def test_a_group_without_hosts_is_named(hosts: list[str] | None) -> None:
    groups = (
        {**GROUPS, "gpu_nodes": hosts} if hosts is not None else {"all": ["cp"], "kube_control_plane": ["cp"]}
    )
    (problem,) = problems(groups, {}, OPTIONS, (), WANTED)
    assert problem == "group gpu_nodes has no hosts: name at least one in the inventory"


def test_a_group_with_a_similar_name_is_reported() -> None:
    (problem,) = problems({"kube_control_plane": ["cp"], "gpu_node": ["a"]}, {}, OPTIONS, (), WANTED)
    assert "rename group gpu_node if it is misspelt" in problem


def test_a_group_of_kubespray_is_not_taken_for_a_misspelt_one() -> None:
    (problem,) = problems({"kube_control_plane": ["cp"], "kube_node": ["a"]}, {}, OPTIONS, (), WANTED)
    assert problem == "group gpu_nodes has no hosts: name at least one in the inventory"


@pytest.mark.parametrize("value", ["yes", "true", "false", 1, 0])
def test_only_true_and_false_are_booleans(value: object) -> None:
    (problem,) = of_variables(nvidia_driver_reboot=value)
    assert problem.startswith("variable nvidia_driver_reboot is a")
    assert "true or false without quotes" in problem


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("nvidia_driver_version", 418.87, "put it in quotes"),
        ("nvidia_driver_version", True, "put it in quotes"),
        ("nvidia_driver_packages", "nvidia-driver", "write a list"),
        ("nvidia_driver_reboot_timeout", "900", "without quotes"),
        ("nvidia_driver_reboot_timeout", True, "without quotes"),
        ("preflight_min_free_mib", [1], "write a mapping"),
        ("nvidia_driver_kernel_module", "dkmz", "use one of dkms, precompiled"),
    ],
)
def test_a_value_of_another_type_is_reported_with_its_fix(name: str, value: object, fix: str) -> None:
    (problem,) = of_variables(**{name: value})
    assert name in problem
    assert str(value) in problem
    assert fix in problem


def test_a_string_of_digits_needs_no_quotes() -> None:
    assert not of_variables(validate_driver_version=535)


def test_templates_are_not_checked() -> None:
    assert not of_variables(
        nvidia_driver_reboot="{{ reboot }}", nvidia_driver_packages="{% if x %}{% endif %}"
    )


def test_encrypted_values_are_not_checked() -> None:
    assert not of_variables(nvidia_driver_reboot=object())


@pytest.mark.parametrize("name", ["nvidia_driver_versoin", "nvida_driver_version", "nvidia_driver_versions"])
def test_a_misspelt_variable_is_named_with_the_right_one(name: str) -> None:
    (problem,) = of_variables(**{name: "535.183.01"})
    assert problem.startswith(f"variable {name} is unknown: did you mean nvidia_driver_version?")


def test_an_unknown_variable_of_a_role_is_named_with_the_list() -> None:
    (problem,) = of_variables(preflight_colour="red")
    assert "preflight_colour" in problem
    assert "roles/preflight/README.md" in problem


@pytest.mark.parametrize(
    ("name", "value", "ours"),
    [
        ("nvidia_driver_skip_reboot", True, "nvidia_driver_reboot, which has the opposite meaning"),
        ("nvidia_driver_branch", "535", "nvidia_driver_version, a full version such as"),
    ],
)
def test_a_variable_of_nvidias_role_is_reported_with_ours(name: str, value: object, ours: str) -> None:
    (problem,) = of_variables(**{name: value})
    assert problem.startswith(f"variable {name} does not belong to this collection: use {ours}")


def test_variables_of_others_are_not_checked() -> None:
    assert not of_variables(kube_version="1.36", docker_version=19.03, ansible_host="x")


def test_internal_variables_of_roles_are_not_checked() -> None:
    assert not of_variables(__nvidia_driver_versions={})


def test_a_variable_of_many_hosts_is_reported_once() -> None:
    variables = {f"n{number}": {"nvidia_driver_reboot": "yes"} for number in range(200)}
    (problem,) = problems(GROUPS, variables, OPTIONS, ("nvidia_driver",), WANTED)
    assert problem.endswith("(on n0, n1, n2 and 197 more)")
