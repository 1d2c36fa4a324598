"""The table of ``auto``: what the node has, and how its containers get their GPUs."""

from dataclasses import dataclass, replace

import pytest

from gpushare.model.cdi import CdiSpec
from gpushare.model.device_lists import (
    DeviceList,
    RuntimeFacts,
    device_list,
    newest_spec,
    strategy_in,
)
from gpushare.model.options import DeviceListChoice, DeviceListStrategy

GPUS = ("GPU-a", "GPU-b")
NEW = "containerd://2.2.9"
CDI, MOUNTS = DeviceListStrategy.CDI, DeviceListStrategy.MOUNTS
TOOLKIT = CdiSpec(
    "/var/run/cdi/nvidia.yaml", 1, "0.5.0", "nvidia.com/gpu", frozenset({"0", "1", "all", *GPUS})
)
PLUGIN = CdiSpec(
    "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json",
    1,
    "0.5.0",
    "k8s.device-plugin.nvidia.com/gpu",
    frozenset(GPUS),
)
MANAGEMENT = CdiSpec(
    "/var/run/cdi/management.nvidia.com-gpu.yaml", 1, "0.5.0", "management.nvidia.com/gpu", frozenset({"all"})
)


@dataclass(frozen=True)
class Row:
    """A node, the decision, and what its reason says."""

    expected: DeviceListStrategy
    says: str
    kubelet: str = "v1.36.3"
    runtime: str = NEW
    specs: tuple[CdiSpec, ...] = (TOOLKIT,)
    unread: tuple[str, ...] = ()
    kind: str = "nvidia.com/gpu"


ROWS = {
    "containerd 2": Row(CDI, "/var/run/cdi/nvidia.yaml names all GPUs as nvidia.com/gpu"),
    "k3s": Row(CDI, "containerd 2.1.4-k3s1", runtime="containerd://2.1.4-k3s1", kubelet="v1.34.1+k3s1"),
    "cri-o": Row(CDI, "cri-o 1.36.1", runtime="cri-o://1.36.1"),
    "the oldest kubelet": Row(CDI, "v1.29.0", kubelet="v1.29.0"),
    "an older kubelet": Row(MOUNTS, "kubelet v1.28.15 ignores CDI devices", kubelet="v1.28.15"),
    "a kubelet that is not known": Row(MOUNTS, "the version of the kubelet is not known", kubelet=""),
    "containerd 1.7": Row(MOUNTS, "--device-list-strategy=cdi", runtime="containerd://1.7.28"),
    "docker": Row(MOUNTS, "whether docker 28.3.0 passes on CDI", runtime="docker://28.3.0"),
    "no runtime": Row(MOUNTS, "whether the container runtime passes on CDI", runtime=""),
    "no specification": Row(
        MOUNTS, "no CDI specification in /etc/cdi and /var/run/cdi names GPU-a", specs=()
    ),
    "nvidia's plugin": Row(CDI, PLUGIN.path, specs=(MANAGEMENT, PLUGIN), kind=PLUGIN.kind),
    "the toolkit before nvidia's plugin": Row(CDI, TOOLKIT.path, specs=(PLUGIN, MANAGEMENT, TOOLKIT)),
    "containerd 1.7 of the operator": Row(
        CDI, PLUGIN.path, runtime="containerd://1.7.28", specs=(MANAGEMENT, PLUGIN), kind=PLUGIN.kind
    ),
    "containerd 1.6 of the operator": Row(
        MOUNTS, "whether containerd 1.6.36", runtime="containerd://1.6.36", specs=(MANAGEMENT, PLUGIN)
    ),
    "indices only": Row(MOUNTS, "names GPU-a", specs=(replace(TOOLKIT, names=frozenset({"0", "1", "all"})),)),
    "one gpu is missing": Row(MOUNTS, "names GPU-a", specs=(replace(TOOLKIT, names=frozenset({"GPU-a"})),)),
    "of another vendor": Row(MOUNTS, "names GPU-a", specs=(replace(TOOLKIT, kind="example.com/gpu"),)),
    "a version that the runtime does not know": Row(
        MOUNTS,
        "/var/run/cdi/nvidia.yaml has version 1.1.0, and containerd 2.1.4 reads those up to 1.0.0",
        runtime="containerd://2.1.4",
        specs=(replace(TOOLKIT, version="1.1.0"),),
    ),
    "the newest version": Row(CDI, "names all GPUs", specs=(replace(TOOLKIT, version="1.1.0"),)),
    "two files of one folder": Row(
        MOUNTS,
        "both name nvidia.com/gpu=GPU-a: remove one",
        specs=(TOOLKIT, replace(TOOLKIT, path="/var/run/cdi/nvidia.json")),
    ),
    "a file in each folder": Row(
        CDI,
        "/var/run/cdi/nvidia.yaml",
        specs=(replace(TOOLKIT, path="/etc/cdi/nvidia.yaml", priority=0), TOOLKIT),
    ),
    "a file that cannot be read": Row(
        MOUNTS,
        "(/etc/cdi/a.json is no CDI specification)",
        specs=(),
        unread=("/etc/cdi/a.json is no CDI specification",),
    ),
}


def decided(
    row: Row, choice: DeviceListChoice = DeviceListChoice.AUTO, *, had_cdi: bool = False
) -> DeviceList:
    return device_list(
        choice, RuntimeFacts(row.kubelet, row.runtime, row.specs, row.unread), GPUS, had_cdi=had_cdi
    )


@pytest.mark.parametrize("name", ROWS)
def test_auto_is_cdi_where_kubelet_runtime_and_a_specification_allow_it(name: str) -> None:
    row = ROWS[name]
    found = decided(row)
    assert (found.strategy, found.cdi_kind) == (row.expected, row.kind)
    assert row.says in found.reason
    assert strategy_in(found.text) == row.expected
    assert found.problem is None


def test_gpus_that_are_named_by_index_need_a_specification_with_indices() -> None:
    facts = RuntimeFacts("v1.36.3", NEW, (TOOLKIT,))
    assert device_list(DeviceListChoice.AUTO, facts, ("0", "1")).strategy is CDI
    assert device_list(DeviceListChoice.AUTO, replace(facts, specs=(PLUGIN,)), ("0", "1")).strategy is MOUNTS


@pytest.mark.parametrize("choice", [choice for choice in DeviceListChoice if choice.strategy])
def test_a_strategy_that_is_set_is_used_whatever_the_node_has(choice: DeviceListChoice) -> None:
    for row in ROWS.values():
        found = decided(row, choice)
        assert (found.strategy, found.problem) == (choice.strategy, None)
        assert found.reason == "set by --device-list-strategy"


def test_cdi_that_is_set_uses_the_kind_that_is_there() -> None:
    assert decided(ROWS["nvidia's plugin"], DeviceListChoice.CDI).cdi_kind == PLUGIN.kind
    assert decided(ROWS["no specification"], DeviceListChoice.CDI).cdi_kind == "nvidia.com/gpu"


@pytest.mark.parametrize("choice", [DeviceListChoice.AUTO, DeviceListChoice.CDI])
@pytest.mark.parametrize("hides", [True, False])
def test_a_specification_that_does_not_hide_the_variable_lets_pods_choose(
    choice: DeviceListChoice, *, hides: bool
) -> None:
    row = replace(ROWS["containerd 2"], specs=(replace(TOOLKIT, hides_variable=hides),))
    assert decided(row, choice).lets_pods_choose is not hides


def test_a_node_whose_specification_is_gone_does_not_start_containers_without_a_gpu() -> None:
    found = decided(ROWS["no specification"], had_cdi=True)
    assert found.strategy is CDI
    assert "nvidia-ctk cdi generate" in (found.problem or "")
    assert "--device-list-strategy=volume-mounts" in (found.problem or "")


def test_a_node_of_the_operator_waits_for_a_specification_of_its_gpus() -> None:
    """Its runtime starts a container with a mount without a GPU, or not at all."""
    found = decided(replace(ROWS["containerd 2"], specs=(MANAGEMENT,)))
    assert found.strategy is CDI
    assert (found.problem or "").startswith("the GPU Operator has enabled CDI on this node")
    assert "names GPU-a, GPU-b" in (found.problem or "")


def test_a_node_whose_kubelet_or_runtime_no_longer_allows_cdi_uses_mounts() -> None:
    assert decided(ROWS["containerd 1.7"], had_cdi=True).strategy is MOUNTS


@pytest.mark.parametrize(
    ("runtime", "newest"),
    [
        ("containerd://1.6.36", None),
        ("containerd://1.7.0", "0.5.0"),
        ("containerd://1.7.15", "0.6.0"),
        ("containerd://1.7.18", "0.7.0"),
        ("containerd://1.7.28", "0.8.0"),
        ("containerd://2.0.0", "0.8.0"),
        ("containerd://2.0.4", "0.8.0"),
        ("containerd://2.0.5", "1.0.0"),
        ("containerd://2.1.5", "1.0.0"),
        ("containerd://2.2.0", "1.0.0"),
        ("containerd://2.2.1", "1.1.0"),
        ("containerd://2.3.0-k3s1", "1.1.0"),
        ("cri-o://1.29.4", "0.5.0"),
        ("cri-o://1.31.0", "0.8.0"),
        ("cri-o://1.34.0", "1.0.0"),
        ("cri-o://1.36.2", "1.1.0"),
        ("rkt://2.0.0", None),
        ("", None),
    ],
)
def test_each_runtime_reads_specifications_up_to_the_version_of_its_library(
    runtime: str, newest: str | None
) -> None:
    assert newest_spec(runtime) == newest
