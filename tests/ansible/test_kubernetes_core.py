"""The role node_labels with the oldest supported kubernetes.core, on an API server with one node.

Ansible 9, for ansible-core 2.16, has version 2.4, which lacks options of later ones. The tests with the
newest version and with pods are in tests/integration/test_ansible_labels.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ansible.test_playbooks import play
from tests.support.fixtures.node_api import NODE, NodeApi, kubeconfig, serving


@pytest.fixture
def api() -> Iterator[NodeApi]:
    with serving() as server:
        yield server


def test_a_node_is_read_and_patched(api: NodeApi, tmp_path: Path) -> None:
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "node_labels_kubeconfig": str(kubeconfig(api, tmp_path)),
        "node_labels_plugin_manifest": "",
    }
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps({"gpu_nodes": {"hosts": {"gpu-1": variables}}}))
    done = play(hosts, "--tags=node_labels", core="2.16", playbook="nodes")
    assert done.returncode == 0, done.stdout + done.stderr
    cordon, finish = api.patches
    assert cordon["spec"] == {"unschedulable": True}
    assert finish["spec"] == {"unschedulable": None}
    assert api.objects[NODE]["metadata"] == {
        "name": "gpu-1",
        "labels": {"gpushare": "true", "cgpu": "true"},
        "annotations": {},
    }
