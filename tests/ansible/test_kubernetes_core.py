"""The role node_labels with the oldest supported kubernetes.core, on an API server with one node.

Ansible 9, for ansible-core 2.16, has version 2.4, which lacks options of later ones. The tests with the
newest version and with pods are in tests/integration/test_ansible_labels.py.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.ansible.test_playbooks import play

NODE = "/api/v1/nodes/gpu-1"
VERSION = ("gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform")
KINDS = [
    {"name": "nodes", "singularName": "", "namespaced": False, "kind": "Node", "verbs": ["get", "patch"]},
    {"name": "pods", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get"]},
]


def objects() -> dict[str, Any]:
    """Every document of the API, by path."""
    info = {"machineID": Path("/etc/machine-id").read_text().strip()}
    return {
        "/version": {"major": "1", "minor": "36", **dict.fromkeys(VERSION, "x")},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": KINDS},
        "/api/v1/pods": {"kind": "PodList", "items": []},
        NODE: {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": "gpu-1"},
            "status": {"nodeInfo": info},
        },
    }


class Api(BaseHTTPRequestHandler):
    """Answers GET and merge patches."""

    server: "Server"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        if path in self.server.texts:
            self._send(200, f'{{"items":[{self.server.texts[path]}]}}'.encode())
            return
        found = self.server.objects.get(path)
        self._answer(200 if found else 404, found or {"kind": "Status", "code": 404})

    def do_PATCH(self) -> None:
        path, _, query = self.path.partition("?")
        patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        changed = merged(self.server.objects[path], patch)
        if query != "dryRun=All":
            self.server.patches.append(patch)
            self.server.objects[path] = changed
        self._answer(200, changed)

    def _answer(self, status: int, document: Any) -> None:
        self._send(status, json.dumps(document).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - a name of the library
        """Log nothing."""


class Server(ThreadingHTTPServer):
    """The objects, lists with one object as text, and the patches in the order of their arrival."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Api)
        self.objects = objects()
        self.texts: dict[str, str] = {}
        self.patches: list[Any] = []


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    base = target if isinstance(target, dict) else {}
    changed = {key: merged(base.get(key), value) for key, value in patch.items()}
    return {key: value for key, value in {**base, **changed}.items() if value is not None}


def kubeconfig(api: Server, folder: Path) -> Path:
    """The file with access to the API."""
    text = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(text))
    return file


@pytest.fixture
def api() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_node_is_read_and_patched(api: Server, tmp_path: Path) -> None:
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
