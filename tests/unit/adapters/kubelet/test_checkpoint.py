"""The kubelet's checkpoint file, in the formats that kubelets write."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from gpushare.adapters.kubelet.api import deviceplugin_pb2 as api
from gpushare.adapters.kubelet.checkpoint import (
    CheckpointEntry,
    CheckpointFile,
)
from gpushare.adapters.kubelet.plugin_response import PluginResponse, plugin_response
from gpushare.errors import KubeletError

MEM = "aliyun.com/gpu-mem"
ANSWER = api.ContainerAllocateResponse(
    envs={"A": "1"},
    mounts=[api.Mount(host_path="/host", container_path="/in")],
    cdi_devices=[api.CDIDevice(name="nvidia.com/gpu=GPU-1")],
).SerializeToString()


def entry(ids: Any, *, uid: str = "u", container: str = "main", resource: str = MEM) -> dict[str, Any]:
    return {
        "PodUID": uid,
        "ContainerName": container,
        "ResourceName": resource,
        "DeviceIDs": ids,
        "AllocResp": base64.b64encode(ANSWER).decode(),
    }


def written(path: Path, *entries: dict[str, Any] | None) -> Path:
    """Put a checkpoint in place as the kubelet does: beside it, then renamed."""
    data = {"PodDeviceEntries": list(entries) or None, "RegisteredDevices": {MEM: ["a", "b"]}}
    draft = path.with_name(".draft")
    draft.write_text(json.dumps({"Data": data, "Checksum": 3458279104}))
    draft.replace(path)
    return path


@pytest.mark.parametrize(
    "ids",
    [["a", "b"], {"-1": ["a", "b"]}, {"0": ["a"], "1": ["b"]}, {"0": ["a", "b"], "1": ["b"]}],
    ids=["before 1.20", "no NUMA", "two NUMA nodes", "one ID on both"],
)
def test_every_shape_of_ids_is_one_set(tmp_path: Path, ids: Any) -> None:
    path = written(tmp_path / "checkpoint", entry(ids))
    assert CheckpointFile(path).latest() == (CheckpointEntry("u", "main", MEM, frozenset("ab"), ANSWER),)


def test_each_container_and_resource_has_its_entry(tmp_path: Path) -> None:
    path = written(
        tmp_path / "checkpoint", entry(["a"]), entry(["b"], container="side"), entry(["c"], uid="v")
    )
    found = CheckpointFile(path).latest()
    assert found is not None
    assert [(each.pod_uid, each.container, sorted(each.ids)) for each in found] == [
        ("u", "main", ["a"]),
        ("u", "side", ["b"]),
        ("v", "main", ["c"]),
    ]


def test_a_kubelet_without_allocations_writes_null(tmp_path: Path) -> None:
    assert CheckpointFile(written(tmp_path / "checkpoint")).latest() == ()
    assert CheckpointFile(written(tmp_path / "checkpoint", entry(None))).latest() == (
        CheckpointEntry("u", "main", MEM, frozenset(), ANSWER),
    )


def test_the_response_for_a_container_can_be_read() -> None:
    answered = CheckpointEntry("u", "main", MEM, frozenset(), ANSWER)
    assert plugin_response(answered) == PluginResponse(
        {"A": "1"}, {"/in": "/host"}, ("nvidia.com/gpu=GPU-1",)
    )


@pytest.mark.parametrize("answer", [b"", b"\xff\xff"], ids=["none", "no protobuf"])
def test_an_answer_that_cannot_be_read_is_empty(answer: bytes) -> None:
    assert plugin_response(CheckpointEntry("u", "main", MEM, frozenset(), answer)) == PluginResponse(
        {}, {}, ()
    )


def test_a_missing_file_is_no_checkpoint(tmp_path: Path) -> None:
    assert CheckpointFile(tmp_path / "none").latest() is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "truncated"),
        ("{", "truncated"),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "missing required field `Data`"),
        ('{"Data":{"PodDeviceEntries":[{"PodUID":7}]}}', r"Expected `str`, got `int` - at `\$\.Data"),
        (
            '{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"r"}]}}',
            "DeviceIDs",
        ),
        ("\x00" * 4096, "malformed"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_path_and_problem(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(text)
    with pytest.raises(KubeletError, match=f"{path}: not a checkpoint .*{problem}"):
        CheckpointFile(path).latest()


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KubeletError, match=f"{tmp_path}: Is a directory"):
        CheckpointFile(tmp_path).latest()


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    file = CheckpointFile(written(tmp_path / "checkpoint", entry(["a"])))
    assert file.latest() is file.latest()


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    file = CheckpointFile(path)
    assert file.latest() is None
    for id_ in "abcabc":
        written(path, entry([id_]))
        found = file.latest()
        assert found is not None
        assert found[0].ids == {id_}
    path.unlink()
    assert file.latest() is None


def test_a_damaged_file_is_an_error_each_time_until_it_is_repaired(tmp_path: Path) -> None:
    path = written(tmp_path / "checkpoint", entry(["a"]))
    file = CheckpointFile(path)
    file.latest()
    path.write_text("half a fi")
    for _ in range(2):
        with pytest.raises(KubeletError):
            file.latest()
    written(path, entry(["b"]))
    found = file.latest()
    assert found is not None
    assert found[0].ids == {"b"}


def test_a_node_of_8_gpus_in_mib_is_read(tmp_path: Path) -> None:
    ids = [f"GPU-fef8089b-4820-abfc-e83e-94318197576e-_-{n:06d}" for n in range(143_771)]
    found = CheckpointFile(written(tmp_path / "checkpoint", entry({"-1": ids}))).latest()
    assert found is not None
    assert found[0].ids == set(ids)


def test_a_checkpoint_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b'{"Data":{"PodDeviceEntries":[{"PodUID":"\xff"}]}}')
    with pytest.raises(KubeletError, match="not a checkpoint"):
        CheckpointFile(path).latest()
