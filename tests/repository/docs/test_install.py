"""The page "Install" before it is run: its files are valid, and its commands name what exists."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.manifests import everything
from components.stack import from_file, load
from gpushare.contract import EXTENDER_NODE_PORT
from release import REGISTRY
from release.bundle import DEFAULTS
from tests.support.pages import Command, Written, steps

ROOT = Path(__file__).parents[3]
STEPS = steps((ROOT / "docs/how-to/install.md").read_text())
COMMANDS = [step for step in STEPS if isinstance(step, Command)]
BLOCKS = [step.text for step in STEPS if isinstance(step, Written) and not step.path]
FILES = {step.path: step.text for step in STEPS if isinstance(step, Written)}
EXAMPLE = ROOT / "inventories/example"
PRINT_NOTHING = ("cp", "export", "sed")
ORDER = (
    "make setup",
    "cp -r inventories/example",
    "playbooks/preflight.yml",
    "playbooks/nodes.yml --check",
    "make images",
    "pulumi up",
    "playbooks/validate.yml",
    "kubectl apply",
    "kubectl inspect gpushare",
    "playbooks/upgrade_driver.yml",
    "playbooks/rollback.yml",
    "pulumi destroy",
)
SERVICES = ("extender", "device-plugin", "exporter", "isolation", "metrics-api", "cli")
IMAGES = {name: f"{REGISTRY}/{name}@sha256:{'1' * 64}" for name in SERVICES}


def stack(**more: Any) -> dict[str, Any]:
    """The configuration of the page, with digests instead of the file that ``make images`` writes."""
    config = yaml.safe_load(FILES["Pulumi.mine.yaml"])["config"]
    assert config["gpushare:images"] == "images.json"
    return {key.removeprefix("gpushare:"): value for key, value in config.items()} | {"images": IMAGES} | more


def test_the_steps_are_in_the_order_in_which_they_work() -> None:
    lines = [command.line for command in COMMANDS]
    places = [next(i for i, line in enumerate(lines) if part in line) for part in ORDER]
    assert places == sorted(places)


def test_the_page_counts_what_the_first_pod_takes() -> None:
    last = next(i for i, step in enumerate(STEPS) if step.section == "Upgrade")
    commands = [step for step in STEPS[:last] if isinstance(step, Command)]
    text = (ROOT / "docs/how-to/install.md").read_text()
    assert f"takes {len(commands)} commands and {last - len(commands)} files." in text


def test_every_command_has_its_output_unless_it_prints_none() -> None:
    silent = [command.line for command in COMMANDS if not command.expected]
    assert {shlex.split(line)[0] for line in silent} <= {*PRINT_NOTHING, "make"}
    assert [line for line in silent if line.startswith("make")] == ["make setup setup-ansible"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.line)
def test_what_a_command_names_exists(command: Command) -> None:
    words = shlex.split(command.line)
    playbooks = [word for word in words if word.startswith("ansible/")]
    assert all((ROOT / word).is_file() for word in playbooks)
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        makefile = (ROOT / "Makefile").read_text()
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    if "-i" in words:
        assert words[words.index("-i") + 1] in FILES


def test_the_inventory_has_groups_of_the_example_only() -> None:
    written = yaml.safe_load(FILES["inventories/mine/hosts.yml"])["all"]["children"]
    shipped = yaml.safe_load((EXAMPLE / "hosts.yml").read_text())["all"]["children"]
    assert written.keys() == shipped.keys()
    assert written["gpu_nodes"]["children"].keys() <= shipped["gpu_nodes"]["children"].keys()


def test_the_driver_is_upgraded_from_the_version_of_the_example_and_rolled_back_to_it() -> None:
    settings = yaml.safe_load((EXAMPLE / "group_vars/gpu_nodes/driver.yml").read_text())
    first = settings["nvidia_driver_version"]
    edits = [re.findall(r"s/([\d.]+)/([\d.]+)/", each.line) for each in COMMANDS if "driver.yml" in each.line]
    assert [found for (found,) in filter(None, edits)] == [
        (first, (second := edits[0][0][1])),
        (second, first),
    ]


def test_the_stack_is_valid_and_deploys_what_the_page_waits_for() -> None:
    names = {each["metadata"]["name"] for each in everything(load(stack()))}
    for name in ("gpushare-schd-extender", "gpushare-device-plugin-ds", "cgpu-installer"):
        assert name in names


def test_the_stack_without_the_library_is_valid() -> None:
    (edit,) = [each.line for each in COMMANDS if "Pulumi.mine.yaml" in each.line]
    (before, after) = re.findall(r"s/([^/]+)/([^/]+)/", edit)[0]
    assert FILES["Pulumi.mine.yaml"].count(before) == 1
    assert yaml.safe_load(after) == {"isolation": {"state": "absent"}}
    assert load(stack(isolation={"state": "absent"}))


def test_one_key_is_the_layout_of_the_ack_documentation() -> None:
    (keys,) = [each for each in map(yaml.safe_load, BLOCKS) if "exposure" in each]
    assert len(keys) == 1
    ports = [port["nodePort"] for each in everything(load(stack(extender=keys))) for port in node_ports(each)]
    assert ports == [EXTENDER_NODE_PORT]


def node_ports(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    found = manifest["spec"].get("ports", []) if manifest["kind"] == "Service" else []
    return [port for port in found if "nodePort" in port]


def test_the_defaults_are_those_of_the_quick_start_the_example_and_install_yaml() -> None:
    def defaults(raw: Mapping[str, Any]) -> Any:
        return json.loads(json.dumps(everything(load({**raw, "images": IMAGES}))))

    quick = [
        each.text
        for each in steps((ROOT / "docs/how-to/quick-start.md").read_text())
        if isinstance(each, Written) and each.path == "Pulumi.quick-start.yaml"
    ]
    shown = {key.partition(":")[2]: each for key, each in yaml.safe_load(quick[0])["config"].items()}
    example = without_images(from_file(ROOT / "Pulumi.example.yaml"))
    del example["tenants"]
    assert defaults(stack()) == defaults(DEFAULTS) == defaults(shown) == defaults(example)


def without_images(value: Any) -> Any:
    if isinstance(value, dict):
        images = ("image", "certificatesImage")
        return {key: without_images(each) for key, each in value.items() if key not in images}
    return [without_images(each) for each in value] if isinstance(value, list) else value


def test_the_first_pod_takes_twelve_lines_and_a_share() -> None:
    _, *lines = FILES["pod.yaml"].splitlines()
    pod = yaml.safe_load("\n".join(lines))
    assert len(lines) == 12
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"aliyun.com/gpu-mem": 4}


def test_the_readme_has_the_same_pod_and_commands_of_the_quick_start() -> None:
    shown = steps((ROOT / "README.md").read_text())
    assert [step.text for step in shown if isinstance(step, Written)] == [FILES["pod.yaml"]]
    page = (ROOT / "docs/how-to/quick-start.md").read_text()
    quick = {each.line for each in steps(page) if isinstance(each, Command)}
    installing = [each.line for each in shown if isinstance(each, Command) and each.section == "Install"]
    assert set(installing) <= quick
    assert any(line.startswith("helm install") for line in installing)
