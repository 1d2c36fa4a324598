"""Which drivers serve which GPUs, by the facts of NVIDIA that ``gpu_drivers`` names."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpu_drivers import (
    ARCHITECTURES,
    architecture,
    kernel_module,
    unserved,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.pci_cards import CARDS

OPEN_GPUS = {
    device
    for line in (Path(__file__).parent / "open_gpus.txt").read_text().splitlines()
    if not line.startswith("#")
    for device in line.split()
}
M40, P40, V100, T4, A100, L40S, H100, GH200, B200, B300 = (
    {"slot": "0000:3b:00.0", "device": device, "name": None, "driver": None}
    for device in ("17fd", "1b38", "1db6", "1eb8", "20b2", "26b9", "2330", "2342", "2901", "3182")
)
UNKNOWN = {**T4, "device": "ffff"}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("P4", "P6", "P40", "P100"), "Pascal"),
        (("V100", "V100S"), "Volta"),
        (("T4", "T4G"), "Turing"),
        (("A2", "A10", "A30", "A40", "A100", "A800"), "Ampere"),
        (("L2", "L4", "L20", "L40", "L40S"), "Ada"),
        (("H20", "H100", "H200", "H800"), "Hopper"),
        (("GH200",), "Grace Hopper"),
        (("B100", "B200", "GB200"), "Blackwell"),
        (("B300", "GB300"), "Blackwell Ultra"),
    ],
)
def test_a_model_has_its_architecture(words: tuple[str, ...], name: str) -> None:
    models = {device for device, model in CARDS.items() if set(model.replace("-", " ").split()) & set(words)}
    assert models
    assert {found.name for device in models if (found := architecture(device))} == {name}


def test_every_model_has_an_architecture() -> None:
    assert [device for device in CARDS if not architecture(device)] == []


def test_what_the_open_modules_serve_is_of_an_architecture_that_they_serve() -> None:
    found = {device: architecture(device) for device in OPEN_GPUS}
    assert [device for device, of in found.items() if of is None or of.module == "proprietary"] == []


def test_what_the_open_modules_do_not_serve_is_older() -> None:
    older = [device for device in CARDS if (of := architecture(device)) and of.module == "proprietary"]
    assert older
    assert not OPEN_GPUS & set(older)
    assert max(older) < min(OPEN_GPUS)


@pytest.mark.parametrize(
    ("gpu", "version", "module"),
    [
        (M40, "580.65.06", "proprietary"),
        (P40, "580.65.06", "proprietary"),
        (V100, "418.87.01", "proprietary"),
        (T4, "418.87.01", "proprietary"),
        (T4, "580.65.06", "proprietary"),
        (T4, "620.70.06", "open"),
        (A100, "450.51.06", "proprietary"),
        (A100, "610.43.02", "proprietary"),
        (L40S, "535.183.01", "open"),
        (H100, "595.91.07", "open"),
        (GH200, "580.65.06", "open"),
        (B200, "570.133.20", "open"),
        (B300, "580.65.06", "open"),
        (UNKNOWN, "620.70.06", "open"),
    ],
)
def test_a_driver_serves_a_gpu(gpu: dict[str, Any], version: str, module: str) -> None:
    assert unserved([gpu], version, module) == ""
    assert unserved([gpu], version, "") == ""


@pytest.mark.parametrize(
    ("gpu", "version", "module", "text"),
    [
        (
            V100,
            "590.48.01",
            "proprietary",
            "branch 590 does not serve Tesla V100 PCIe 32GB (Volta), whose last",
        ),
        (V100, "615.71.09", "", "set nvidia_driver_version to a version of branch 580"),
        (V100, "580.65.06", "open", "the open kernel module does not serve Tesla V100 PCIe 32GB (Volta)"),
        (M40, "595.91.07", "open", "branch 595 does not serve NVIDIA 10de:17fd (Maxwell)"),
        (P40, "595.91.07", "proprietary", "Tesla P40 (Pascal), whose last branch is 580"),
        (B200, "580.65.06", "proprietary", "set nvidia_driver_kernel_module_type to auto or open"),
        (B200, "565.57.01", "open", "branch 565 does not serve B200 (Blackwell), whose first branch is 570"),
        (B300, "570.133.20", "open", "whose first branch is 575"),
        (GH200, "580.65.06", "proprietary", "the proprietary kernel module does not serve GH200"),
        (H100, "470.256.02", "proprietary", "whose first branch is 520"),
        (T4, "615.71.09", "proprietary", "branch 615 has no proprietary kernel module"),
        (T4, "470.256.02", "open", "branch 470 has no open kernel module"),
    ],
)
def test_a_driver_does_not_serve_a_gpu(gpu: dict[str, Any], version: str, module: str, text: str) -> None:
    assert text in unserved([T4, gpu], version, module)


def test_gpus_that_no_driver_serves_together_are_both_named() -> None:
    for gpus in ([V100, B200], [B200, V100]):
        fault = unserved(gpus, "580.65.06", "open")
        assert (
            "no driver serves both Tesla V100 PCIe 32GB (Volta), which needs branch 580 or earlier" in fault
        )
        assert "and B200 (Blackwell), which needs branch 570 or later and the open kernel module" in fault


def test_a_gpu_of_virtual_machines_has_no_rule() -> None:
    assert unserved([{**V100, "driver": "vfio-pci"}], "620.70.06", "open") == ""


@pytest.mark.parametrize(
    ("gpus", "version", "expected"),
    [
        ([], "580.65.06", "open"),
        ([V100], "580.65.06", "proprietary"),
        ([V100, T4], "580.65.06", "proprietary"),
        ([T4], "580.65.06", "open"),
        ([T4], "470.256.02", "proprietary"),
        ([T4, B200], "580.65.06", "open"),
        ([UNKNOWN], "620.70.06", "open"),
    ],
)
def test_auto_is_what_serves_all_gpus_of_the_host(
    gpus: list[dict[str, Any]], version: str, expected: str
) -> None:
    assert kernel_module(gpus, version, "auto") == expected


def test_auto_keeps_a_module_that_serves() -> None:
    assert kernel_module([T4], "580.65.06", "auto", "proprietary") == "proprietary"
    assert kernel_module([B200], "580.65.06", "auto", "proprietary") == "open"


@pytest.mark.parametrize("wanted", ["open", "proprietary", ""])
def test_another_value_is_taken_as_it_is(wanted: str) -> None:
    assert kernel_module([V100], "580.65.06", wanted, "proprietary") == wanted


EXAMPLE = Path(__file__).parents[2] / "inventories/example"


@pytest.mark.parametrize(
    ("group", "gpus"),
    [
        ("t4", [T4]),
        ("v100", [V100]),
        ("titan", [{**T4, "device": "1b02"}]),
        ("ampere", [A100, L40S]),
        ("hopper", [H100, GH200]),
        ("blackwell", [B200, B300]),
    ],
)
def test_the_groups_of_the_example_get_a_driver_that_serves_them(
    group: str, gpus: list[dict[str, Any]]
) -> None:
    hosts = yaml.safe_load((EXAMPLE / "hosts.yml").read_text())
    assert hosts["all"]["children"]["gpu_nodes"]["children"][group]["hosts"]
    texts = [(EXAMPLE / f"group_vars/{name}.yml").read_text() for name in ("gpu_nodes/driver", group)]
    settings = {name: value for text in texts for name, value in (yaml.safe_load(text) or {}).items()}
    version = settings["nvidia_driver_version"]
    module = settings.get("nvidia_driver_kernel_module_type", "auto")
    assert unserved(gpus, version, kernel_module(gpus, version, module)) == ""


def test_names_of_architectures_are_unique() -> None:
    names = [each.name for each in ARCHITECTURES]
    assert len(names) == len(set(names))
