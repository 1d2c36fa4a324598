"""Objects of the API that are nested more deeply than Python decodes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.deep_json import loads, shallow
from tests.ansible.cores import CORES, play, printed
from tests.support.fixtures.node_api import NodeApi, kubeconfig, serving

DEEPEST = 9994
WORDS = ["", "a", "é", "\n", 'b"', "\\", '\\"', "[{", "}]", '",{"']


def nested(depth: int, inside: str = '"x"') -> str:
    return '{"f:a\\"]":[' * (depth // 2) + inside + "]}" * (depth // 2)


def named(name: str, depth: int, **parts: Any) -> str:
    document = {"metadata": {"managedFields": ["FIELDS"], "name": name, "namespace": "tenant", "uid": "u"}}
    return json.dumps({**document, **parts}).replace('"FIELDS"', nested(depth))


@pytest.mark.parametrize("depth", [0, 50, 1200, DEEPEST])
def test_a_list_with_an_object_of_any_depth_is_read(depth: int) -> None:
    found = loads(f'{{"items":[{named("a", depth, spec=WORDS)},{named("b", 0)}]}}')["items"]
    assert [each["metadata"]["name"] for each in found] == ["a", "b"]
    assert found[0]["spec"] == WORDS


@pytest.mark.parametrize("separators", [None, (",", ":")])
def test_a_shallow_document_is_unchanged(separators: tuple[str, str] | None) -> None:
    text = json.dumps([WORDS, dict.fromkeys(WORDS, WORDS), 1.5, None], separators=separators)
    assert shallow(text) == text


@pytest.mark.parametrize("body", ["[" * 5000, nested(3000)[:-1], '{"a":"' + named("a", DEEPEST)])
def test_a_document_that_is_no_json_is_an_error(body: str) -> None:
    with pytest.raises(ValueError, match="line 1 column"):
        loads(body)


@pytest.fixture
def api() -> Iterator[NodeApi]:
    """An API whose tenant has nested a pod, a DaemonSet and a node as deeply as the API server accepts."""
    plugin = {"containers": [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0"}]}
    with serving() as server:
        server.texts = {
            "/api/v1/pods": named("deep", DEEPEST, spec={"containers": []}),
            "/api/v1/nodes": named("gpu-1", DEEPEST, spec={}),
            "/apis/apps/v1/daemonsets": named("deep", DEEPEST, spec={"template": {"spec": plugin}}),
        }
        yield server


@pytest.mark.parametrize("core", CORES)
def test_deep_objects_of_a_tenant_stop_no_module(core: str, api: NodeApi, tmp_path: Path) -> None:
    access = {"kubeconfig": str(kubeconfig(api, tmp_path)), "context": "x"}
    tasks = [
        {"gpushare.nodes.read_objects": {"path": path, **access}, "register": name}
        for name, path in (("nodes", "/api/v1/nodes"), ("sets", "/apis/apps/v1/daemonsets"))
    ]
    shown = {"ansible.builtin.debug": {"msg": "{{ nodes.resources }} {{ sets.resources }}"}}
    evicted = {"gpushare.nodes.evict_pods": {"node": "gpu-1", "force": True, **access}, "check_mode": True}
    told = {"ansible.builtin.debug": {"msg": "evicts {{ pods.evicted | join }}"}}
    done = play(core, tmp_path, [*tasks, shown, {**evicted, "register": "pods"}, told])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "evicts tenant/deep" in done.stdout
    assert "gpu-1" in done.stdout
    assert "k8s-device-plugin" in done.stdout
    assert "f:a" not in done.stdout


def test_an_api_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with serving() as server:
        access = {"kubeconfig": str(kubeconfig(server, tmp_path)), "context": "x"}
    tasks: list[dict[str, Any]] = [
        {"gpushare.nodes.read_objects": {"path": "/api/v1/nodes", **access}, "ignore_errors": True},
        {"gpushare.nodes.evict_pods": {"node": "gpu-1", **access}},
    ]
    done = play("2.16", tmp_path, tasks)
    text = printed(done)
    assert "the API server does not answer: HTTPConnectionPool" in text
    assert text.count("Connection refused") == 2
    assert "Traceback" not in text
