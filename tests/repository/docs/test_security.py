"""The security model has a proof for each statement, and a row for each account and each pod with rights."""

import re
from pathlib import Path

import pytest

from components.manifests import everything
from components.stack import load
from docs.generate import ROLES
from tests.support.builders.stacks import DIGEST

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/concepts/security.md").read_text()
ACCOUNTS = {
    "Extender": "extender",
    "Node agent (with `queryKubelet` and `startupTaint`)": "node agent",
    "Exporter": "exporter",
    "Metrics API": "metrics API",
    "Certificate of the metrics API": "certificates of the metrics API (a Job and a CronJob)",
    "Board (`monitoring.board`)": "board (`monitoring.board`)",
    "Installer": "installer of the scheduler",
    "Viewers (groups of users in `monitoring.viewers`)": "a viewer (`monitoring.viewers`)",
    "Certificates": "certificates (a Job and a CronJob)",
    "Prometheus (`monitoring.prometheus`)": "Prometheus (`monitoring.prometheus`)",
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
    "images": dict.fromkeys(
        ("extender", "device-plugin", "exporter", "isolation", "metrics-api", "cli"), DIGEST
    ),
    "devicePlugins": [{"nodeSelector": {"ack.node.gpu.schedule": "mps"}}],
    "extender": {"exposure": "node-port"},
    "isolation": {},
    "mps": {},
    "installer": {},
    "monitoring": {"exporter": {}},
}

PROOFS = {
    "tests/integration/isolation/test_conflicts.py": [
        "test_pods_that_would_undo_their_limit_are_rejected_with_cause_and_remedy"
    ],
    "tests/unit/deviceplugin/core/test_conflicts.py": [
        "test_a_conflict_is_rejected_exactly_where_it_undoes_the_share"
    ],
    "tests/integration/test_admission.py": [
        "test_a_tenant_cannot_create",
        "test_a_tenant_cannot_change_a_bound_pod_to",
        "test_a_tenant_cannot_bind_with_an_allocation",
    ],
    "tests/integration/test_seals.py": [
        "test_an_edited_annotation_counts_on_every_gpu_after_a_restart_and_an_unedited_one_on_its_gpu"
    ],
    "tests/property/test_annotations.py": ["test_an_edit_of_one_annotation_never_moves_a_pod_to_another_gpu"],
    "tests/integration/test_container_devices.py": [
        "test_pods_that_no_scheduler_placed_get_a_gpu_that_the_extender_counts",
        "test_a_pod_without_a_request_gets_no_gpu_by_any_variable_or_mount",
        "test_with_environment_variables_a_pod_that_sets_its_devices_is_rejected",
    ],
    "tests/property/test_ledger.py": ["HonestCluster", "HostileCluster"],
    "tests/isolation/test_spoiled.py": [
        "test_the_environment_raises_no_limit",
        "test_an_invalid_region_allows_no_memory",
        "test_programs_survive_an_overwritten_lock_of_the_region",
    ],
    "tests/integration/isolation/test_memory.py": [
        "test_a_pod_cannot_disable_isolation",
        "test_an_images_own_preloads_are_hidden",
        "test_a_read_only_root_filesystem_works",
        "test_unprivileged_users_and_setuid_programs_are_limited",
    ],
    "tests/unit/deviceplugin/isolation/test_region_sizes.py": [
        "test_a_region_that_grew_is_repaired_and_reported_on_the_pod"
    ],
    "tests/integration/test_manifests.py": ["test_a_quota_limits_gpu_pods_only"],
    "tests/integration/test_metrics_api.py": [
        "test_only_the_front_proxy_is_trusted",
        "test_the_client_of_the_front_proxy_can_read_what_its_roles_allow",
    ],
    "tests/isolation/test_ways_in.py": [
        "test_a_program_that_loads_the_driver_is_limited",
        "test_a_program_linked_to_the_driver_is_limited",
    ],
    "tests/isolation/test_processes.py": [
        "test_memory_of_a_killed_process_is_released",
        "test_a_process_killed_with_the_lock_blocks_no_other",
    ],
    "tests/integration/isolation/test_pacing.py": [
        "test_programs_that_bypass_the_library_cause_events_on_their_pods_and_others_on_the_node"
    ],
    "tests/integration/test_mutual_tls.py": [
        "test_the_real_scheduler_binds_over_mutual_tls_and_other_clients_are_refused"
    ],
    "tests/unit/extender/test_clients.py": [
        "test_another_certificate_of_the_authority_is_refused_with_the_reason"
    ],
    "tests/unit/deviceplugin/kubelet/test_allocator.py": [
        "test_a_forged_mirror_does_not_replace_the_pod_with_its_uid"
    ],
    "tests/integration/test_doctor.py": [
        "test_the_board_of_the_cluster_is_for_those_who_may_list_nodes_and_all_pods"
    ],
    "tests/unit/board/test_login.py": [
        "test_others_get_the_login_page_with_the_reason_and_nothing_else",
        "test_a_login_keeps_the_token_in_a_cookie_that_scripts_and_other_hosts_cannot_read",
        "test_a_form_that_another_site_sends_is_refused",
    ],
    "tests/unit/extender/test_webhook.py": ["test_without_a_certificate_it_does_not_start"],
    "tests/unit/extender/test_scheduler_name.py": [
        "test_a_pod_that_requests_units_and_names_no_scheduler_gets_it"
    ],
    "tests/components/test_network.py": [
        "test_there_are_no_policies_by_default",
        "test_metrics_are_for_prometheus_our_services_and_the_api_server",
    ],
}
"""The tests that prove the statements of the tables, by the files that the page names."""


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


def test_the_page_names_the_files_of_the_proofs() -> None:
    sections = ("What a tenant cannot do", "What isolation holds against", "Between the services")
    cells = " ".join(cell for section in sections for row in table(section) for cell in row)
    assert set(re.findall(r"`(tests/[^`]+)`", cells)) == PROOFS.keys()


@pytest.mark.parametrize("file", PROOFS)
def test_a_proof_exists(file: str) -> None:
    found = set(re.findall(r"^(?:async )?(?:def|class) (\w+)", (ROOT / file).read_text(), re.MULTILINE))
    assert set(PROOFS[file]) <= found


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
