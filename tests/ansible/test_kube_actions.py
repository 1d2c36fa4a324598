"""The actions read_objects, patch_object and evict_pods, on an API server with one node."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.cores import CORES, PROGRAMS, Ended, printed, run
from tests.support.fixtures.node_api import NODE, NodeApi, kubeconfig, serving

READ = "gpushare.nodes.read_objects"
PATCH = "gpushare.nodes.patch_object"
EVICT = "gpushare.nodes.evict_pods"
CORE = next(iter(PROGRAMS))
NODES = NODE.rpartition("/")[0]


@pytest.fixture
def api() -> Iterator[NodeApi]:
    with serving() as server:
        yield server


def play(folder: Path, api: NodeApi, core: str, *tasks: dict[str, Any], flags: tuple[str, ...] = ()) -> Ended:
    """Run tasks for a host without a login: the actions run on the controller."""
    access = {"kubeconfig": str(kubeconfig(api, folder)), "context": "x"}
    given = [
        {**task, **{name: {**access, **task[name]} for name in (READ, PATCH, EVICT) if name in task}}
        for task in tasks
    ]
    file = folder / "play.yml"
    file.write_text(yaml.safe_dump([{"hosts": "gpu-1", "gather_facts": False, "tasks": given}]))
    return run(core, "--inventory=gpu-1,", *flags, file)


def shown(text: str) -> dict[str, Any]:
    return {"ansible.builtin.debug": {"msg": text}}


@pytest.mark.parametrize("core", CORES)
def test_an_object_is_read_by_its_name_and_an_absent_one_is_no_error(
    core: str, api: NodeApi, tmp_path: Path
) -> None:
    api.objects[NODE]["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    done = play(
        tmp_path,
        api,
        core,
        {READ: {"path": NODES, "name": "gpu-1"}, "register": "plain"},
        {READ: {"path": NODES, "name": "gpu-1", "managed_fields": True}, "register": "managed"},
        {READ: {"path": NODES, "name": "gpu-9"}, "register": "absent"},
        shown("plain {{ plain.resources | map(attribute='metadata') | to_json }}"),
        shown("managers {{ managed.resources[0].metadata.managedFields | map(attribute='manager') | join }}"),
        shown("absent {{ absent.resources | to_json }}"),
    )
    assert done.returncode == 0, printed(done)
    assert 'plain [{"name": "gpu-1"}]' in printed(done).replace("\\", "")
    assert "managers kubelet" in printed(done)
    assert "absent []" in printed(done)


@pytest.mark.parametrize("core", CORES)
def test_a_patch_reports_and_shows_its_own_fields_alone(core: str, api: NodeApi, tmp_path: Path) -> None:
    cordon = {PATCH: {"path": NODE, "patch": {"spec": {"unschedulable": True}}}}
    first = play(tmp_path, api, core, cordon, flags=("--diff",))
    assert first.returncode == 0, printed(first)
    assert "changed=1" in first.stdout
    assert "- unschedulable: null + unschedulable: true" in printed(first)
    assert "machineID" not in first.stdout
    again = play(tmp_path, api, core, cordon, flags=("--diff",))
    assert "changed=0" in again.stdout, printed(again)
    assert api.objects[NODE]["spec"] == {"unschedulable": True}


@pytest.mark.parametrize("core", CORES)
def test_in_check_mode_the_api_server_is_asked_and_nothing_changes(
    core: str, api: NodeApi, tmp_path: Path
) -> None:
    before = json.dumps(api.objects[NODE])
    patch = {PATCH: {"path": NODE, "patch": {"metadata": {"labels": {"gpushare": "true"}}}}}
    done = play(tmp_path, api, core, patch, flags=("--check",))
    assert done.returncode == 0, printed(done)
    assert "changed=1" in done.stdout
    assert json.dumps(api.objects[NODE]) == before


@pytest.mark.parametrize("core", CORES)
def test_a_task_is_retried_until_the_api_server_has_the_object(
    core: str, api: NodeApi, tmp_path: Path
) -> None:
    wait = {
        READ: {"path": "/apis/absent/v1/things"},
        "register": "found",
        "until": "found.resources is defined",
        "retries": 2,
        "delay": 0,
    }
    done = play(tmp_path, api, core, wait)
    assert done.returncode != 0
    assert done.stdout.count("FAILED - RETRYING") == 2, printed(done)
    assert "the API server returned 404" in printed(done)
    assert "Traceback" not in printed(done)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("text", ["no kubeconfig\n", "{", None])
def test_a_file_that_is_no_kubeconfig_is_named(text: str | None, core: str, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    if text:
        file.write_text(text)
    tasks = [{READ: {"path": NODES, "kubeconfig": str(file), "context": "x"}}]
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "gpu-1", "gather_facts": False, "tasks": tasks}])
    )
    done = run(core, "--inventory=gpu-1,", tmp_path / "play.yml")
    assert f"{file} cannot be used for the API (" in printed(done)
    assert "Traceback" not in printed(done)


@pytest.mark.parametrize("core", CORES)
def test_a_controller_without_the_library_is_told_what_it_lacks(
    core: str, api: NodeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubernetes").mkdir()
    (tmp_path / "kubernetes/__init__.py").write_text("raise ImportError('no kubernetes here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = play(tmp_path, api, core, {READ: {"path": NODES}})
    assert done.returncode != 0
    assert "lacks the library kubernetes (no kubernetes here)" in printed(done)
    assert str(PROGRAMS[core].parent) in printed(done)


def pod(name: str, *, controlled: bool = True, volume: str = "", uid: str = "") -> dict[str, Any]:
    """A pod of the node."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "a", "controller": True}
    metadata = {"name": name, "namespace": "default", "uid": uid or f"uid-of-{name}"}
    return {
        "metadata": {**metadata, "ownerReferences": [owner] if controlled else []},
        "spec": {
            "nodeName": "gpu-1",
            "containers": [],
            "volumes": [{"name": "v", volume: {}}] if volume else [],
        },
        "status": {"phase": "Running"},
    }


def drained(
    folder: Path, api: NodeApi, *pods: dict[str, Any], flags: tuple[str, ...] = (), **arguments: Any
) -> Ended:
    """An eviction of these pods."""
    api.objects["/api/v1/pods"]["items"] = [*pods]
    task = {EVICT: {"node": "gpu-1", "wait_s": 2, **arguments}}
    return play(folder, api, CORE, task, flags=flags)


def names(api: NodeApi) -> list[str]:
    return [each["metadata"]["name"] for each in api.objects["/api/v1/pods"]["items"]]


def test_a_drain_evicts_each_pod_once_by_name_and_uid(api: NodeApi, tmp_path: Path) -> None:
    done = drained(tmp_path, api, pod("a"), pod("b"))
    assert done.returncode == 0, printed(done)
    assert "changed=1" in done.stdout
    assert names(api) == []
    evicted = [(each["metadata"]["name"], each["deleteOptions"]) for each in api.evictions]
    assert evicted == [(name, {"preconditions": {"uid": f"uid-of-{name}"}}) for name in "ab"]


def test_a_new_pod_of_the_same_name_is_not_evicted(api: NodeApi, tmp_path: Path) -> None:
    """The API server has replaced the pod after the list was read."""
    api.texts["/api/v1/pods"] = json.dumps(pod("a"))
    done = drained(tmp_path, api, pod("a", uid="new"))
    assert done.returncode != 0
    assert names(api) == ["a"]


def test_in_check_mode_no_pod_is_evicted(api: NodeApi, tmp_path: Path) -> None:
    done = drained(tmp_path, api, pod("a"), flags=("--check",))
    assert done.returncode == 0, printed(done)
    assert "changed=1" in done.stdout
    assert (names(api), api.evictions) == (["a"], [])


@pytest.mark.parametrize(
    ("kept", "switch", "reason"),
    [
        (
            pod("b", volume="emptyDir"),
            {"delete_emptydir_data": False},
            "would delete the data of an emptyDir",
        ),
        (pod("b", controlled=False), {}, "have no controller and would not be recreated"),
    ],
)
def test_a_drain_that_loses_something_is_refused_before_any_eviction(
    api: NodeApi, tmp_path: Path, kept: dict[str, Any], switch: dict[str, Any], reason: str
) -> None:
    done = drained(tmp_path, api, pod("a"), kept, **switch)
    assert done.returncode != 0
    assert reason in printed(done)
    assert "default/b" in printed(done)
    assert (names(api), api.evictions) == (["a", "b"], [])


@pytest.mark.parametrize(
    ("lost", "switch"),
    [
        (pod("b", volume="emptyDir"), {"delete_emptydir_data": True}),
        (pod("b", controlled=False), {"force": True}),
    ],
)
def test_a_drain_that_may_lose_it_evicts_all(
    api: NodeApi, tmp_path: Path, lost: dict[str, Any], switch: dict[str, Any]
) -> None:
    done = drained(tmp_path, api, pod("a"), lost, **switch)
    assert done.returncode == 0, printed(done)
    assert names(api) == []


def test_a_pod_that_a_budget_keeps_is_named_with_the_reason(api: NodeApi, tmp_path: Path) -> None:
    api.guarded["a"] = "the budget web needs 2 pods"
    done = drained(tmp_path, api, pod("a"), pod("b"))
    assert done.returncode != 0
    assert "default/a (the budget web needs 2 pods)" in printed(done)
    assert names(api) == ["a"]
    assert len([each for each in api.evictions if each["metadata"]["name"] == "b"]) == 1
