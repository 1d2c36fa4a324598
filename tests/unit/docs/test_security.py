"""The security model has a proof for each statement, and a row for each account and each pod with rights."""

import re
from pathlib import Path

import pytest

from components.manifests import everything
from components.stack import load
from docs.generate import ROLES
from tests.builders.stacks import DIGEST

PAGE = (Path(__file__).parents[3] / "docs/concepts/security.md").read_text()
ACCOUNTS = {
    "Extender": "extender",
    "Node agent (`nodes/pods` only with `queryKubelet`)": "node agent",
    "Exporter": "exporter",
    "Metrics API": "metrics API",
    "Installer": "installer of the scheduler",
    "Viewers (groups of users in `monitoring.viewers`)": "a viewer (`monitoring.viewers`)",
    "Certificates": "certificates (a Job and a CronJob)",
}
"""The row of each account on the page of rights."""
ROOT_PODS = {
    "gpushare-device-plugin-ds": "node agent",
    "gpushare-exporter": "exporter",
    "cgpu-installer": "library installer",
    "gpushare-mps": "MPS daemon",
    "gpushare-installer": "installer of the scheduler",
}
WHOLE = {
    "kubernetesVersion": "1.36",
    "images": dict.fromkeys(("extender", "device-plugin", "exporter", "isolation", "cli"), DIGEST),
    "devicePlugins": [{"nodeSelector": {"ack.node.gpu.schedule": "mps"}}],
    "extender": {},
    "isolation": {},
    "mps": {},
    "installer": {},
    "monitoring": {"exporter": {}},
}


def table(section: str) -> list[list[str]]:
    """The rows of the table of a section, without its head."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return rows[1:]


@pytest.mark.parametrize(
    "section", ["What a tenant cannot do", "What isolation holds against", "Between the services"]
)
def test_every_statement_has_a_proof(section: str) -> None:
    unproved = [row[0] for row in table(section) if not re.search(r"`tests/|\]\(", " ".join(row))]
    assert unproved == (["node agent to kubelet"] if section == "Between the services" else [])


def test_every_account_has_a_row_that_says_what_its_token_can_do() -> None:
    rows = {row[0] for row in table("Rights of the services")}
    assert ACCOUNTS.keys() == ROLES.keys()
    assert set(ACCOUNTS.values()) <= rows


def test_every_pod_that_runs_as_root_has_a_row() -> None:
    rows = {name for row in table("Pods of the services") if row[1] == "root" for name in row[0].split(", ")}
    pods = {each["metadata"]["name"] for each in everything(load(WHOLE)) if '"runAsUser": 0' in _text(each)}
    assert {ROOT_PODS[name] for name in pods} == rows


def _text(manifest: object) -> str:
    return str(manifest).replace("'", '"')
