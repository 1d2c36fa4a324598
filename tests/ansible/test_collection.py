"""The tarball of the collection on a controller with ansible-core and without this checkout."""

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpushare.nodes.plugins.plugin_utils import (
    checks,
    node_mode,
    scheduler,
    scheduler_probe,
    validation,
)
from tests.ansible.cores import PROGRAMS, missing
from tests.ansible.reports import REQUIRED, report
from tests.support.fixtures import controllers
from tests.support.fixtures.controllers import ROOT, Controller

ENVIRONMENTS = {core: program.parents[1] for core, program in PROGRAMS.items()}
PLAYBOOKS = sorted(f"gpushare.nodes.{path.stem}" for path in (ROOT / "ansible/playbooks").glob("*.yml"))
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
INVENTORY = {
    "all": {
        "children": {
            "kube_control_plane": {"hosts": {"cp-1": LOCAL}},
            "gpu_nodes": {"hosts": {"gpu-1": LOCAL}},
        }
    }
}
EXTENDER = {"url": "http://127.0.0.1:32766/gpushare-scheduler", "weight": 5, "http_timeout_s": 5, "tls": {}}
SECOND = {"kubernetes_version": "1.36", "name": "second", "kubeconfig": ""}
NODE = {
    "metadata": {"labels": {"gpushare": "true"}, "annotations": {"gpushare.io/cards": "[]"}},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"aliyun.com/gpu-mem": "62"},
    },
}
WANTED = {
    "mode": "whole",
    "keys": ["gpushare"],
    "schedule": "share",
    "placement": "",
    "labels": {},
    "taints": [],
    "removed_taints": [],
}
CARDS = [{"model": "Tesla V100-SXM2-32GB", "mib": 32510}]
PROBE = {
    "refused": "",
    "events": [{"reason": "FailedScheduling", "message": "limit 1 cannot be spread evenly over 1000 GPUs"}],
}
FILTERS = """{{ {
    "second": extender | gpushare.nodes.scheduler_configuration(second),
    "plan": node | gpushare.nodes.node_mode_plan(wanted, cards),
    "node": {"report": report} | gpushare.nodes.validate_verdict(required, node, {}),
    "cluster": {"resources": [node]} | gpushare.nodes.cluster_verdict(probe),
} | to_json }}"""

IMPORT_ALL = """
import importlib, sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader()
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error.name)
"""


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return controllers.build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def controller(
    request: pytest.FixtureRequest, tarball: Path, tmp_path_factory: pytest.TempPathFactory
) -> Controller:
    environment = ENVIRONMENTS[request.param]
    if not environment.exists():
        pytest.skip(f"{environment} is not there: {missing(request.param)}")
    return controllers.make(tmp_path_factory.mktemp("controller"), environment, tarball)


def inventory_of(folder: Path, **variables: object) -> Path:
    file = folder / "hosts.json"
    file.write_text(json.dumps({"all": {**INVENTORY["all"], "vars": variables}}))
    return file


@pytest.mark.parametrize("module", ["gpushare", "msgspec", "tomlkit", "kubernetes"])
def test_the_controller_has_only_ansible_core(controller: Controller, module: str) -> None:
    assert f"No module named '{module}'" in controller.run("-c", f"import {module}").stderr


def test_only_toml_edits_need_a_library_beside_ansible_core(controller: Controller) -> None:
    plugins = controller.collection / "plugins"
    files = [*plugins.glob("filter/*.py"), *plugins.glob("plugin_utils/**/*.py")]
    root = controller.folder / "collections"
    names = sorted(".".join(file.relative_to(root).with_suffix("").parts) for file in files)
    done = controller.run("-c", IMPORT_ALL, *names)
    assert done.returncode == 0, done.stderr
    missing = dict(line.rpartition(".")[2].split() for line in done.stdout.splitlines())
    assert missing == {"config_text": "tomlkit", "containerd": "tomlkit"}


def test_every_playbook_of_the_tarball_passes_the_syntax_check(
    controller: Controller, tmp_path: Path
) -> None:
    done = controller.ansible(
        "playbook", "--syntax-check", f"--inventory={inventory_of(tmp_path)}", *PLAYBOOKS
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ansible_builder_reads_what_the_collection_needs(controller: Controller) -> None:
    builder = ENVIRONMENTS["2.19"] / "bin/ansible-builder"
    argv = [str(builder), "introspect", str(controller.folder / "collections")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert done.returncode == 0, done.stderr
    ours = {
        kind: [line.split("  # ")[0] for line in lines if line.endswith("from collection gpushare.nodes")]
        for kind, lines in yaml.safe_load(done.stdout).items()
    }
    assert ours == {
        "python": ["kubernetes>=24.2.0", "tomlkit>=0.11"],
        "system": ["openssh-client [platform:dpkg]", "openssh-clients [platform:rpm]"],
    }


def test_the_inventory_check_finds_a_misspelt_variable(controller: Controller, tmp_path: Path) -> None:
    good, bad = inventory_of(tmp_path), "--extra-vars=nvidia_driver_versoin=580"
    check = ("playbook", f"--inventory={good}", "gpushare.nodes.check_inventory")
    groups = '--extra-vars={"check_inventory_groups": ["kube_control_plane", "gpu_nodes"]}'
    passed, failed = controller.ansible(*check, groups), controller.ansible(*check, groups, bad)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert failed.returncode != 0
    assert "nvidia_driver_versoin" in failed.stdout + failed.stderr


def test_preflight_reports_on_this_host(controller: Controller, tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    inventory = inventory_of(tmp_path, preflight_report_path=str(written))
    done = controller.ansible("playbook", f"--inventory={inventory}", "gpushare.nodes.preflight")
    assert written.exists(), done.stdout + done.stderr
    hosts = json.loads(written.read_text())["hosts"]
    assert set(hosts) == {"cp-1", "gpu-1"}
    assert {"system", "kernel", "cards", "driver"} <= {each["name"] for each in hosts["gpu-1"]["checks"]}


def test_the_filters_return_the_same_as_those_of_the_checkout(controller: Controller, tmp_path: Path) -> None:
    variables: dict[str, Any] = {
        "extender": EXTENDER,
        "second": SECOND,
        "node": NODE,
        "wanted": WANTED,
        "cards": CARDS,
        "report": report(),
        "required": REQUIRED,
        "probe": PROBE,
    }
    written, play = tmp_path / "answers.json", tmp_path / "play.yml"
    copy = {"content": FILTERS, "dest": str(written), "mode": "0644"}
    task = {"name": "Ask each filter", "ansible.builtin.copy": copy}
    play.write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [task]}])
    )
    done = controller.ansible("playbook", play)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(written.read_text()) == {
        "second": scheduler.configuration(EXTENDER, SECOND),
        "plan": node_mode.plan(NODE, WANTED, CARDS),
        "node": checks.verdict(
            validation.checks(report(), validation.Requirements(**REQUIRED), NODE, {}),
            report(),
        ),
        "cluster": checks.verdict(scheduler_probe.checks({"resources": [NODE]}, PROBE)),
    }


def test_the_tarball_has_the_licence(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        text = archive.extractfile("LICENSE")
        assert text is not None
        assert text.read() == (ROOT / "LICENSE").read_bytes()
