"""Each engine starts containers with NVIDIA's runtime, and other settings are kept.

cp-1 has the real docker of Debian and a stub of cri-o, gpu-1 a stub of docker-ce that was upgraded, gpu-2 the
real containerd.
"""

import json
import tomllib
from collections.abc import Callable

import pytest
from testinfra.host import Host

testinfra_hosts = ["ansible://all"]
BINARY = "/usr/bin/nvidia-container-runtime"
CRI = "io.containerd.grpc.v1.cri"
One = Callable[[str], Host]


def test_there_are_three_hosts(names_of: Callable[[str], list[str]]) -> None:
    assert names_of("all") == ["cp-1", "gpu-1", "gpu-2"]


def test_pods_cannot_select_gpus_themselves(host: Host) -> None:
    text = host.file("/etc/nvidia-container-runtime/config.toml").content_string
    config = tomllib.loads(text)
    assert config["accept-nvidia-visible-devices-as-volume-mounts"] is True
    assert config["accept-nvidia-visible-devices-envvar-when-unprivileged"] is False
    assert config["nvidia-container-runtime"]["mode"] == "auto"
    assert "#accept-nvidia-visible-devices-as-volume-mounts = false" in text


def test_the_toolkit_has_its_version_and_is_held(host: Host) -> None:
    assert host.package("nvidia-container-toolkit").version == "1.17.8-1"
    assert host.package("libnvidia-container1").version == "1.17.8-1"
    assert "nvidia-container-toolkit" in host.check_output("apt-mark showhold").split()


@pytest.mark.parametrize("name", ["gpu-1", "gpu-2"])
def test_limits_and_regions_have_a_separate_filesystem(one: One, name: str) -> None:
    found = json.loads(
        one(name).check_output("findmnt --json --bytes --output FSTYPE,SIZE,OPTIONS /run/gpushare")
    )
    (mount,) = found["filesystems"]
    assert (mount["fstype"], int(mount["size"])) == ("tmpfs", 256 << 20)
    assert {"nosuid", "nodev", "noexec"} <= set(mount["options"].split(","))


def test_no_filesystem_hides_the_files_of_running_containers(one: One) -> None:
    host = one("cp-1")
    assert host.file("/run/gpushare/0000000000000001/limit").content_string == "version 1\n"
    assert host.run("findmnt --mountpoint /run/gpushare").rc == 1


def test_the_filesystem_is_mounted_at_boot(host: Host) -> None:
    assert host.service("run-gpushare.mount").is_enabled


def test_there_is_a_cdi_specification(host: Host) -> None:
    assert "kind: nvidia.com/gpu" in host.file("/etc/cdi/nvidia.yaml").content_string


def test_no_restart_is_pending(host: Host) -> None:
    assert not host.file("/run/gpushare-container-runtime.restart").exists


def test_a_real_dockerd_has_nvidia_as_default_and_its_other_settings(one: One) -> None:
    info = json.loads(one("cp-1").check_output("docker info --format '{{json .}}'"))
    assert info["DefaultRuntime"] == "nvidia"
    assert info["Runtimes"]["nvidia"]["path"] == BINARY
    assert "runc" in info["Runtimes"]
    assert info["LoggingDriver"] == "local"
    assert info["Labels"] == ["rack=b4"]


# Docker supports CDI from version 25 on.
@pytest.mark.parametrize(("name", "features"), [("cp-1", None), ("gpu-1", {"cdi": True})])
def test_settings_of_docker_are_merged_and_their_mode_is_kept(
    one: One, name: str, features: dict[str, bool] | None
) -> None:
    file = one(name).file("/etc/docker/daemon.json")
    config = json.loads(file.content_string)
    assert list(config)[:4] == ["log-driver", "log-opts", "labels", "shutdown-timeout"]
    assert config["log-opts"] == {"max-size": "7m"}
    assert config["default-runtime"] == "nvidia"
    assert config["runtimes"] == {"nvidia": {"path": BINARY}}
    assert config.get("features") == features
    assert file.mode == 0o600


def test_docker_has_its_version_and_is_held(one: One) -> None:
    host = one("gpu-1")
    assert host.package("docker-ce").version.startswith("5:28.3.3-1")
    assert host.package("docker-ce-cli").version == host.package("docker-ce").version
    assert {"docker-ce", "docker-ce-cli"} <= set(host.check_output("apt-mark showhold").split())
    assert host.service("docker").is_running


def test_a_real_containerd_accepts_its_settings(one: One) -> None:
    dump = tomllib.loads(one("gpu-2").check_output("containerd config dump"))
    containerd = dump["plugins"][CRI]["containerd"]
    assert containerd["default_runtime_name"] == "nvidia"
    assert containerd["runtimes"]["nvidia"]["options"]["BinaryName"] == BINARY
    for name in ("nvidia", "runc"):
        assert containerd["runtimes"][name]["options"]["SystemdCgroup"] is True
    assert dump["plugins"][CRI]["sandbox_image"] == "registry.example.org/pause:3.9"
    assert "Server:" in one("gpu-2").check_output("ctr version")


def test_comments_in_containerds_settings_are_kept(one: One) -> None:
    text = one("gpu-2").file("/etc/containerd/config.toml").content_string
    assert "# where the big disk is" in text
    assert "# ours" in text


def test_containerd_was_restarted_once(one: One) -> None:
    journal = one("gpu-2").check_output("journalctl --unit=containerd --output=cat")
    starts = [line for line in journal.splitlines() if line.startswith("Started containerd")]
    # The package starts it first.
    assert len(starts) == 2, journal


def test_cri_o_gets_an_additional_file(one: One) -> None:
    host = one("cp-1")
    config = tomllib.loads(host.file("/etc/crio/crio.conf.d/99-gpushare-nvidia.conf").content_string)
    runtime = config["crio"]["runtime"]
    assert runtime["default_runtime"] == "nvidia"
    assert runtime["runtimes"]["nvidia"] == {"runtime_path": BINARY, "runtime_type": "oci"}
    # Cri-o reads all files of the folder in the order of their names, so a backup would override the file.
    files = host.file("/etc/crio/crio.conf.d").listdir()
    assert [name for name in files if "gpushare" in name] == ["99-gpushare-nvidia.conf"]
    assert host.service("crio").is_running
