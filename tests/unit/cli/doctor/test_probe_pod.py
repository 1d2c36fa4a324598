"""The pod of ``doctor --probe``: what it asks for, and what its script writes."""

import subprocess
from pathlib import Path

import msgspec
import pytest

from gpushare.adapters.kube.wire import WirePod, pod_of
from gpushare.cli.doctor.probe_pod import ProbeRequest, Seen, manifest, seen_by
from gpushare.model.demand import Demand

REQUEST = ProbeRequest("ml", "gpushare-probe-1", "image", None, core=False, timeout_s=60)
ON_NODE = ProbeRequest("ml", "gpushare-probe-1", "image", "gpu-1", core=True, timeout_s=60)


def test_the_request_in_words_names_units_and_node() -> None:
    assert REQUEST.wish == "1 of aliyun.com/gpu-mem"
    assert ON_NODE.wish == "1 of aliyun.com/gpu-mem and 5 of aliyun.com/gpu-core.percentage on node gpu-1"


def test_a_node_is_chosen_by_affinity_so_that_the_scheduler_places_the_pod() -> None:
    spec = manifest(ON_NODE)["spec"]
    assert "nodeName" not in spec
    assert "metadata.name" in str(spec["affinity"])
    assert spec["containers"][0]["resources"]["limits"]["aliyun.com/gpu-core.percentage"] == "5"
    assert "affinity" not in manifest(REQUEST)["spec"]


@pytest.mark.parametrize("asked", [REQUEST, ON_NODE])
def test_the_extender_accepts_the_request(asked: ProbeRequest) -> None:
    pod = pod_of(msgspec.convert({"metadata": {"uid": "u"}, **manifest(asked)}, WirePod))
    assert pod is not None
    assert isinstance(pod.demand, Demand)


def test_the_pod_ends_by_itself_if_its_creator_is_killed() -> None:
    assert manifest(REQUEST)["spec"]["activeDeadlineSeconds"] == 120


def written(tmp_path: Path, environ: dict[str, str], devices: str = "none") -> Seen:
    """What the script writes, with its files below a folder."""
    script = manifest(REQUEST)["spec"]["containers"][0]["command"][2]
    for path in ("/dev/termination-log", "/.gpushare/limit", "/etc/ld.so.preload", "/dev/dxg"):
        script = script.replace(path, str(tmp_path / Path(path).name))
    script = script.replace("/dev/nvidia", str(tmp_path / devices))
    subprocess.run(["/bin/sh", "-c", script], env=environ, check=True)  # noqa: S603 - our own script  # noqa: S603 - our own script
    return seen_by((tmp_path / "termination-log").read_text())


ENVIRON = {"ALIYUN_COM_GPU_MEM_CONTAINER": "1", "ALIYUN_COM_GPU_MEM_IDX": "3"}


def test_a_container_without_a_gpu_sees_none(tmp_path: Path) -> None:
    assert written(tmp_path, {}) == Seen("", "", limited=False, devices=())


@pytest.mark.parametrize("mps", ["", "0=1024M"])
def test_a_container_sees_its_gpu_its_limit_and_its_devices(tmp_path: Path, mps: str) -> None:
    for name in ("nvidia3", "nvidiactl", *(() if mps else ("limit",))):
        (tmp_path / name).touch()
    (tmp_path / "ld.so.preload").write_text("/.gpushare/libgpushare.so\n")
    environ = {**ENVIRON, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": mps}
    devices = (str(tmp_path / "nvidia3"),)
    assert written(tmp_path, environ, "nvidia") == Seen("1", "3", limited=True, devices=devices)


@pytest.mark.parametrize("preload", [None, "", "/opt/apm/launcher.so\n"])
def test_a_container_that_does_not_load_the_library_is_not_limited(
    tmp_path: Path, preload: str | None
) -> None:
    (tmp_path / "limit").touch()
    if preload is not None:
        (tmp_path / "ld.so.preload").write_text(preload)
    assert not written(tmp_path, ENVIRON).limited


def test_a_message_of_something_else_is_no_gpu() -> None:
    assert seen_by("💥\n=\n") == Seen("", "", limited=False, devices=())
