"""The module host_report, with folders and canned output instead of hosts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpushare.nodes.plugins.module_utils import (
    host_cdi,
    host_gpus,
    host_kubelet,
    host_operator,
    host_runtimes,
    host_system,
)
from ansible_collections.gpushare.nodes.plugins.module_utils.host_programs import (
    MODULE_KEYS,
    Programs,
    folders,
    parse_units,
)
from ansible_collections.gpushare.nodes.plugins.modules import host_report
from ansible_collections.gpushare.nodes.plugins.modules.host_report import gather
from gpushare.contract import ISOLATION_LIBRARIES, ISOLATION_STATE
from gpushare.model.cdi import CdiSpec, parse_spec
from tests.ansible.reports import report
from tests.support.builders.cdi_files import OF_PLUGIN, OF_TOOLKIT
from tools.role_docs import ROLES

PCI_IDS = """\
# comment
1002  Advanced Micro Devices
\t1b02  Not NVIDIA's
10de  NVIDIA Corporation
\t1b02  GP102 [TITAN Xp]
\t\t10de 11df  A board
\t1eb8  TU104GL [Tesla T4]
\t2684  AD102
10df  Emulex Corporation
\t1b02  Not NVIDIA's either
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty host."""
    return tmp_path


def write(root: Path, files: Mapping[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def card(slot: str, device: str, *, kind: str = "0x030200", vendor: str = "0x10de") -> dict[str, str]:
    folder = f"sys/bus/pci/devices/{slot}"
    return {f"{folder}/vendor": vendor, f"{folder}/device": f"0x{device}\n", f"{folder}/class": f"{kind}\n"}


def test_programs_are_found_in_folders_that_sudo_omits() -> None:
    assert folders("kubelet") == ["/usr/local/bin"]
    assert folders("nvidia-ctk") == ["/usr/local/nvidia/toolkit", "/usr/local/bin"]


def absent(name: str) -> None:
    del name


def answering(answers: Mapping[str, tuple[int, str, str]], *, driver_root: bool = False) -> Programs:
    """Programs with these answers, by command; others are not installed."""

    def find(name: str) -> str | None:
        return name if any(words.split()[0] == name for words in answers) else None

    def run(words: list[str]) -> tuple[int, str, str]:
        assert words[0] == "timeout"
        return answers[" ".join(words[4:])]

    return Programs(find, run, driver_root=driver_root)


def test_an_empty_host_has_a_complete_report(root: Path) -> None:
    found = gather(str(root), Programs(absent, None, driver_root=False), ["/"], deep=True)
    assert found.keys() == report().keys()
    for key in ("programs", "kubelet", "toolkit", "driver", "operator", "asked", "runtimes"):
        assert found[key].keys() == report()[key].keys()
    assert (found["gpus"], found["services"], found["cgroup"]) == ([], {}, "none")
    assert found["asked"]["smi"]["error"] == "nvidia-smi is not installed"


def test_slow_programs_run_only_on_request(root: Path) -> None:
    found = gather(str(root), Programs(absent, None, driver_root=False), ["/"], deep=False)
    assert found["asked"] == {"smi": None, "docker": None, "container_cli": None}


APT, LIBRARY = {"usr/bin/apt-get": ""}, "dist-packages/apt/__init__.py"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, [None]),
        ({"usr/bin/dnf": ""}, [None]),
        (APT, [False]),
        ({**APT, f"usr/lib/python3/{LIBRARY}": ""}, [True]),
        ({**APT, f"usr/lib/python2.7/{LIBRARY}": ""}, [True]),
    ],
)
def test_the_library_of_apt_is_required_where_apt_is(
    files: dict[str, str], expected: list[bool | None], root: Path
) -> None:
    found = gather(write(root, files), Programs(absent, None, driver_root=False), ["/"], deep=False)
    assert [found["apt_library"]] == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"etc/os-release": 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian 12"\n'}, ("debian", "12")),
        ({"usr/lib/os-release": "ID='rocky'\nVERSION_ID='9.6'\n# X=1\n"}, ("rocky", "9.6")),
        (
            {
                "etc/os-release": 'ID="centos"\nVERSION_ID="7"\n',
                "etc/centos-release": "CentOS Linux release 7.9.2009 (Core)\n",
            },
            ("centos", "7.9"),
        ),
        ({"etc/os-release": "NAME=odd\n=\n\n"}, ("", "")),
    ],
)
def test_the_system_is_that_of_os_release(
    root: Path, files: dict[str, str], expected: tuple[str, str]
) -> None:
    found = host_system.operating_system(write(root, files))
    assert (found["id"], found["version"]) == expected


@pytest.mark.parametrize(
    "folder", ["lib/modules/6.1/build", "usr/src/linux-headers-6.1", "usr/src/kernels/6.1"]
)
def test_headers_are_found_in_the_folder_of_each_distribution(root: Path, folder: str) -> None:
    assert not host_system.kernel(str(root), "6.1")["headers"]
    (root / folder).mkdir(parents=True)
    assert host_system.kernel(str(root), "6.1")["headers"]
    assert not host_system.kernel(str(root), "6.2")["headers"]


def test_a_link_to_removed_headers_does_not_count(root: Path) -> None:
    (root / "lib/modules/6.1").mkdir(parents=True)
    (root / "lib/modules/6.1/build").symlink_to(root / "gone")
    assert not host_system.kernel(str(root), "6.1")["headers"]


def test_a_missing_folder_has_the_space_of_its_parent(root: Path) -> None:
    found = host_system.disk(str(root), ["/", "/var/lib/containerd"])
    assert found["/"]["size_mib"] == found["/var/lib/containerd"]["size_mib"] > 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("47 24 0:41 / /run/gpushare rw,nosuid - tmpfs gpushare rw,size=262144k", True),
        ("47 24 0:24 /gpushare /run/gpushare rw,nosuid - tmpfs tmpfs rw", False),
        ("24 1 0:24 / /run rw,nosuid - tmpfs tmpfs rw", False),
        ("", False),
    ],
)
def test_a_folder_is_a_separate_filesystem_if_a_whole_one_is_mounted_there(
    root: Path, line: str, *, expected: bool
) -> None:
    write(root, {"proc/self/mountinfo": f"{line}\n"})
    assert host_system.is_mounted(str(root), "/run/gpushare") is expected


MOUNTS = """\
21 1 8:1 / / ro,relatime shared:1 - ext2 /dev/dm-0 ro
30 21 8:1 /var /var rw,nosuid,nodev,noexec,relatime shared:9 - ext4 /dev/sda1 rw,commit=30
31 30 8:1 /var/lib/docker /var/lib/docker rw,relatime - ext4 /dev/sda1 rw
32 21 0:31 / /srv rw,noexec - tmpfs tmpfs rw
33 21 0:32 / /srv rw - tmpfs tmpfs rw
34 21
"""


@pytest.mark.parametrize(
    ("folder", "point", "options"),
    [
        ("/usr/local/gpushare", "/", ["ro", "relatime"]),
        ("/var/lib/gpushare", "/var", ["rw", "nosuid", "nodev", "noexec", "relatime"]),
        ("/variable", "/", ["ro", "relatime"]),
        ("/var/lib/docker/gpushare", "/var/lib/docker", ["rw", "relatime"]),
        ("/srv/gpushare", "/srv", ["rw"]),
        ("/link/gpushare", "/srv", ["rw"]),
    ],
)
def test_the_mount_that_a_folder_is_on(root: Path, folder: str, point: str, options: list[str]) -> None:
    write(root, {"proc/self/mountinfo": MOUNTS})
    (root / "srv").mkdir()
    (root / "link").symlink_to("srv")
    assert host_system.mount_of(str(root), folder) == {"point": point, "options": options}


def test_without_a_list_of_mounts_the_mount_of_a_folder_is_unknown(root: Path) -> None:
    assert host_system.mount_of(str(root), "/var/lib/gpushare") is None


def test_the_folders_of_a_host_are_those_of_the_services() -> None:
    assert (host_report.LIBRARIES, host_report.REGIONS) == (ISOLATION_LIBRARIES, ISOLATION_STATE)
    for role in ("container_runtime", "validate"):
        defaults = yaml.safe_load((ROLES / role / "defaults/main.yml").read_text())
        assert defaults[f"{role}_library_folder"] == ISOLATION_LIBRARIES


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], "none"),
        (["cgroup.controllers"], "v2"),
        (["memory/cgroup.procs", "cpu/cgroup.procs"], "v1"),
        (["memory/cgroup.procs", "unified/cgroup.procs"], "hybrid"),
    ],
)
def test_the_version_of_cgroups(root: Path, files: list[str], expected: str) -> None:
    write(root, {f"sys/fs/cgroup/{name}": "" for name in files})
    assert host_system.cgroup_version(str(root)) == expected


def test_gpus_are_nvidias_display_devices_with_their_names(root: Path) -> None:
    tree = {
        **card("0000:3b:00.0", "1eb8"),
        **card("0000:af:00.0", "1b02", kind="0x030000"),
        **card("0000:af:00.1", "10ef", kind="0x040300"),
        **card("0000:b0:00.0", "1b02", vendor="0x1002"),
        "usr/share/misc/pci.ids": PCI_IDS,
    }
    write(root, tree)
    (root / "sys/bus/pci/devices/0000:3b:00.0/driver").symlink_to("../../drivers/nvidia")
    assert host_gpus.pci_gpus(str(root)) == [
        {"slot": "0000:3b:00.0", "device": "1eb8", "name": "Tesla T4", "driver": "nvidia"},
        {"slot": "0000:af:00.0", "device": "1b02", "name": "TITAN Xp", "driver": None},
    ]


def test_nvswitches_are_bridges_of_nvidia_that_are_not_of_a_mainboard(root: Path) -> None:
    switch = card("0000:06:00.0", "22a3", kind="0x068000")
    chipset = card("0000:00:0a.0", "0373", kind="0x068000")
    write(root, {**switch, **chipset, **card("0000:3b:00.0", "2330")})
    assert host_gpus.nvswitches(str(root)) == ["0000:06:00.0"]


EFIVARS = "sys/firmware/efi/efivars"


@pytest.mark.parametrize(("value", "expected"), [(b"\x06\0\0\0\x01", True), (b"\x06\0\0\0\0", False)])
def test_secure_boot_is_that_of_the_firmware(root: Path, value: bytes, expected: object) -> None:
    assert host_system.secure_boot(str(root)) is None
    (root / EFIVARS).mkdir(parents=True)
    (root / EFIVARS / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(value)
    assert host_system.secure_boot(str(root)) is expected


def test_the_enrolled_key_is_that_which_mokutil_confirms() -> None:
    ubuntu, other = MODULE_KEYS
    absent_file = (255, "", f"Failed to get file status, {ubuntu}")
    tested = {f"mokutil --test-key {ubuntu}": absent_file}
    known = answering({**tested, f"mokutil --test-key {other}": (1, f"{other} is already enrolled\n", "")})
    assert known.enrolled_key() == other
    new = answering({**tested, f"mokutil --test-key {other}": (0, f"{other} is not enrolled\n", "")})
    assert new.enrolled_key() is None
    assert Programs(absent, None, driver_root=False).enrolled_key() is None


@pytest.mark.parametrize(("text", "state"), [(None, "disabled"), ("0", "permissive"), ("1\n", "enforcing")])
def test_the_state_of_selinux(root: Path, text: str | None, state: str) -> None:
    write(root, {} if text is None else {"sys/fs/selinux/enforce": text})
    assert host_system.selinux(str(root)) == state


def test_names_are_none_without_a_list_and_complete_without_brackets(root: Path) -> None:
    write(root, card("0000:3b:00.0", "1eb8"))
    assert host_gpus.pci_gpus(str(root))[0]["name"] is None
    write(root, {"usr/share/hwdata/pci.ids": PCI_IDS})
    assert host_gpus.device_names(str(root), {"2684", "ffff"}) == {"2684": "AD102"}


def test_the_kernels_driver(root: Path) -> None:
    assert host_gpus.kernel_driver(str(root)) == {"loaded": None, "nouveau": False}
    write(root, {"sys/module/nvidia/version": "580.65.06\n", "sys/module/nouveau/x": ""})
    assert host_gpus.kernel_driver(str(root)) == {"loaded": "580.65.06", "nouveau": True}


CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  cpuManagerPolicy: not-at-the-top
cpuManagerPolicy: "static"  # quoted
containerRuntimeEndpoint: unix:///run/crio/crio.sock
"""


@pytest.mark.parametrize(
    ("files", "pid", "policy", "endpoint"),
    [
        ({}, 0, None, None),
        ({"var/lib/kubelet/config.yaml": CONFIG}, 0, "static", "unix:///run/crio/crio.sock"),
        (
            {"var/lib/kubelet/config.yaml": json.dumps({"cpuManagerPolicy": "static", "x": []})},
            0,
            "static",
            None,
        ),
        ({"var/lib/kubelet/config.yaml": "[1]"}, 0, None, None),
        (
            {
                "var/lib/kubelet/config.yaml": CONFIG,
                "var/lib/kubelet/kubeadm-flags.env": 'KUBELET_KUBEADM_ARGS="--cpu-manager-policy=none --x"\n',
                "etc/default/kubelet": "KUBELET_EXTRA_ARGS=--container-runtime-endpoint /run/cri.sock\n",
            },
            0,
            "none",
            "/run/cri.sock",
        ),
        (
            {
                "proc/7/cmdline": "/usr/bin/kubelet\0--config=/etc/k.yaml\0--config-dir\0/etc/k.d\0",
                "etc/k.yaml": CONFIG,
                "etc/k.d/10-first.conf": "cpuManagerPolicy: none\n",
                "etc/k.d/20-other.yaml": "cpuManagerPolicy: ignored\n",
                "var/lib/kubelet/config.yaml": "cpuManagerPolicy: not-read\n",
            },
            7,
            "none",
            "unix:///run/crio/crio.sock",
        ),
        (
            {"etc/default/kubelet": "KUBELET_EXTRA_ARGS=--cpu-manager-policy=x --y='\n"},
            0,
            "x",
            None,
        ),
    ],
)
def test_flags_override_drop_ins_and_drop_ins_the_file(
    root: Path, files: dict[str, str], pid: int, policy: str | None, endpoint: str | None
) -> None:
    found = host_kubelet.kubelet_settings(write(root, files), pid)
    assert (found["cpu_manager_policy"], found["runtime_endpoint"]) == (policy, endpoint)


def test_the_policy_in_the_state_file_of_the_kubelet(root: Path) -> None:
    state = root / host_kubelet._STATE
    state.parent.mkdir(parents=True)
    for text, expected in (('{"policyName":"static"}', "static"), ("", None), ("{", None), ("[]", None)):
        state.write_text(text)
        assert host_kubelet.kubelet_settings(str(root), 0)["cpu_manager_state"] == expected


def test_the_version_is_the_first_in_the_output() -> None:
    programs = answering(
        {
            "dockerd --version": (0, "Docker version 19.03.5, build 633a0ea838\n", ""),
            "kubelet --version": (0, "Kubernetes v1.36.0\n", ""),
            "containerd --version": (
                0,
                "containerd containerd.io 1.7.27 05044ec0a9a7\n",
                "",
            ),
            "crio --version": (1, "1.2.3", "broken"),
            "cri-dockerd --version": (0, "cri-dockerd 0.3.21 (HEAD)\n", ""),
            "nvidia-ctk --version": (0, "NVIDIA Container Toolkit CLI version 1.17.8\ncommit: f\n", ""),
            "modinfo -F version nvidia": (124, "", ""),
        }
    )
    assert programs.versions() == {
        "containerd": "1.7.27",
        "cri-dockerd": "0.3.21",
        "cri-o": None,
        "docker": "19.03.5",
        "kubelet": "1.36.0",
        "nvidia-ctk": "1.17.8",
        "nvidia-module": None,
    }


def test_units_that_do_not_exist_are_omitted() -> None:
    text = (
        "Id=docker.service\nLoadState=loaded\nActiveState=active\nMainPID=12\n\n"
        "Id=crio.service\nLoadState=not-found\nActiveState=inactive\nMainPID=0\n\n"
        "Id=kubelet.service\nLoadState=loaded\nActiveState=failed\nMainPID=0\n"
    )
    assert parse_units(text) == {
        "docker": {"state": "active", "pid": 12},
        "kubelet": {"state": "failed", "pid": 0},
    }
    assert parse_units("") == {}


SMI = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((0, "580.65.06\n580.65.06\n", ""), {"version": "580.65.06", "cards": 2, "error": None}),
        (
            (9, "", "\nNo devices were found\n"),
            {"version": None, "cards": 0, "error": "No devices were found"},
        ),
        ((0, "\n", ""), {"version": None, "cards": 0, "error": "nvidia-smi printed nothing"}),
        ((124, "", ""), {"version": None, "cards": 0, "error": "nvidia-smi did not end within 20 s"}),
        ((-9, "", ""), {"version": None, "cards": 0, "error": "nvidia-smi did not end within 20 s"}),
    ],
)
def test_the_output_or_error_of_nvidia_smi(answer: tuple[int, str, str], expected: dict[str, Any]) -> None:
    assert answering({SMI: answer}).smi() == expected


def test_a_driver_of_the_operator_is_queried_in_its_root_folder() -> None:
    answers = {f"chroot /run/nvidia/driver {SMI}": (0, "580.65.06\n", "")}
    expected = {"version": "580.65.06", "cards": 1, "error": None}
    assert answering(answers, driver_root=True).smi() == expected
    # As long as its container has not started, the folder is empty.
    assert answering(answers).smi()["error"] == "nvidia-smi is not installed"
    both = answers | {SMI: (0, "570.1\n", "")}
    assert answering(both, driver_root=True).smi()["version"] == "570.1"


MIG = "nvidia-smi --query-gpu=pci.bus_id,mig.mode.current --format=csv,noheader"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            (0, "00000000:3B:00.0, Enabled\n00000000:AF:00.0, Disabled\n00000000:D8:00.0, [N/A]\n", ""),
            ["0000:3b:00.0"],
        ),
        ((0, "00010000:3B:00.0, Enabled\n", ""), ["10000:3b:00.0"]),
        ((0, "00000000:3B:00.0, [N/A]\n", ""), []),
        # Before driver 450.
        ((2, 'Field "mig.mode.current" is not a valid field to query.\n', ""), None),
        ((124, "", ""), None),
    ],
)
def test_the_gpus_in_mig_mode_are_those_of_nvidia_smi(
    answer: tuple[int, str, str], expected: list[str] | None
) -> None:
    assert answering({MIG: answer}).mig_slots() == expected
    of_operator = {f"chroot /run/nvidia/driver {MIG}": answer}
    assert answering(of_operator, driver_root=True).mig_slots() == expected


@pytest.mark.parametrize(("deep", "mig"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("loaded", [False, True])
def test_only_a_loaded_driver_is_asked_for_mig_mode(
    root: Path,
    deep: bool,  # noqa: FBT001 - of a table
    mig: bool,  # noqa: FBT001 - of a table
    loaded: bool,  # noqa: FBT001 - of a table
) -> None:
    if loaded:
        write(root, {"sys/module/nvidia/version": "580.65.06\n"})
    smi = (0, "580.65.06\n", "")
    programs = answering({SMI: smi, MIG: (0, "00000000:3B:00.0, Enabled\n", "")})
    found = gather(str(root), programs, ["/"], deep=deep, mig=mig)
    assert found["mig"] == (["0000:3b:00.0"] if loaded and (deep or mig) else None)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], {"driver": False, "toolkit": False}),
        # Pods of the operator create these folders also where the driver is installed on the host.
        (["run/nvidia/driver/x", "usr/local/nvidia/x"], {"driver": False, "toolkit": False}),
        (["run/nvidia/driver/usr/bin/nvidia-smi"], {"driver": True, "toolkit": False}),
        (["usr/local/nvidia/toolkit/nvidia-container-runtime"], {"driver": False, "toolkit": True}),
    ],
)
def test_what_the_operator_has_installed(root: Path, files: list[str], expected: dict[str, bool]) -> None:
    assert host_operator.installed(write(root, dict.fromkeys(files, ""))) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            (0, '{"default": "nvidia", "runtimes": {"runc": {}, "nvidia": {"path": "x"}}}\n', ""),
            {"default": "nvidia", "runtimes": ["nvidia", "runc"]},
        ),
        ((0, '{"default": "", "runtimes": null}', "daemon is not running"), {"default": "", "runtimes": []}),
        ((0, "Docker version 28.3.3", ""), None),
        ((1, "{}", "cannot connect"), None),
    ],
)
def test_the_runtimes_of_the_docker_daemon(
    answer: tuple[int, str, str], expected: dict[str, Any] | None
) -> None:
    template = '{"default": {{json .DefaultRuntime}}, "runtimes": {{json .Runtimes}}}'
    assert answering({f"docker info --format {template}": answer}).docker() == expected


def test_gpus_for_containers_are_counted_by_their_device_files() -> None:
    listed = "/dev/nvidiactl\n/dev/nvidia-uvm\n/dev/nvidia0\n/dev/nvidia11\n/usr/bin/nvidia-smi\n"
    found = answering({"nvidia-container-cli list": (0, listed, "")}).container_cli()
    assert found == {"cards": 2, "error": None}
    broken = answering({"nvidia-container-cli list": (1, "", "nvml error: no driver")}).container_cli()
    assert broken == {"cards": 0, "error": "nvml error: no driver"}


PACKAGED = "etc/nvidia-container-runtime/config.toml"
OF_OPERATOR = "usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
TOOLKIT = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
accept-nvidia-visible-devices-as-volume-mounts = true # by gpushare
accept-nvidia-visible-devices-envvar-when-unprivileged=false

[nvidia-container-cli]
accept-nvidia-visible-devices-envvar-when-unprivileged = true
"""


def test_settings_of_the_toolkit_are_at_the_top_level_only(root: Path) -> None:
    write(root, {PACKAGED: TOOLKIT})
    found = host_runtimes.toolkit_settings(str(root))
    assert found == {"volume_mounts": True, "envvar_unprivileged": False, "mode": None}
    write(root, {PACKAGED: TOOLKIT.split("\n", 4)[4]})
    found = host_runtimes.toolkit_settings(str(root))
    assert found == {"volume_mounts": None, "envvar_unprivileged": None, "mode": None}


OPERATOR_TOOLKIT = """\
accept-nvidia-visible-devices-as-volume-mounts = true

[nvidia-container-runtime]
log-level = "info"
mode = "cdi" # by the operator
runtimes = ["runc", "crun"]

[nvidia-container-runtime.modes.cdi]
mode = "no key of this table"
"""


def test_the_toolkit_of_the_operator_is_the_one_that_runs(root: Path) -> None:
    write(root, {PACKAGED: TOOLKIT, OF_OPERATOR: OPERATOR_TOOLKIT})
    found = host_runtimes.toolkit_settings(str(root))
    assert found == {"volume_mounts": True, "envvar_unprivileged": None, "mode": "cdi"}


@pytest.mark.parametrize(
    ("path", "text", "runtime"),
    [
        (
            "etc/containerd/config.toml",
            '[plugins]\n  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n',
            "containerd",
        ),
        (
            "etc/containerd/conf.d/99-nvidia.toml",
            "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia'] # ours\n",
            "containerd",
        ),
        ("etc/crio/crio.conf.d/99-nvidia.conf", "[crio.runtime.runtimes.nvidia]\n", "cri-o"),
        ("etc/docker/daemon.json", '{"runtimes": {"nvidia": {"path": "x"}}}', "docker"),
        ("var/run/cdi/nvidia.yaml", "", "cdi"),
    ],
)
def test_nvidias_runtime_is_found_in_the_files_of_each_runtime(
    root: Path, path: str, text: str, runtime: str
) -> None:
    found = host_runtimes.nvidia_in_files(write(root, {path: text}))
    assert [name for name, there in found.items() if there] == [runtime]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "etc/containerd/config.toml",
            "# [plugins.x.runtimes.nvidia]\n[x.runtimes.nvidia.options]\n",
        ),
        ("etc/docker/daemon.json", "{"),
        ("etc/docker/daemon.json", "[]"),
        ("etc/docker/daemon.json", '{"runtimes": null}'),
        ("etc/cdi/other.json", ""),
    ],
)
def test_similar_text_is_not_nvidias_runtime(root: Path, path: str, text: str) -> None:
    assert not any(host_runtimes.nvidia_in_files(write(root, {path: text})).values())


def test_cdi_specifications_are_reported_as_the_agent_reads_them(root: Path) -> None:
    files = {
        "etc/cdi/nvidia.yaml": OF_TOOLKIT,
        "etc/cdi/broken.json": "{",
        "etc/cdi/empty.yaml": "",
        "etc/cdi/notes.txt": OF_TOOLKIT,
        "var/run/cdi/plugin.json": OF_PLUGIN,
    }
    found = host_cdi.specifications(write(root, files))
    texts = [("/etc/cdi/nvidia.yaml", 0, OF_TOOLKIT), ("/var/run/cdi/plugin.json", 1, OF_PLUGIN)]
    assert [CdiSpec(**{**each, "names": frozenset(each["names"])}) for each in found] == [
        parse_spec(*each) for each in texts
    ]


def test_the_engine_of_another_product_is_reported(root: Path) -> None:
    program, config = "/var/lib/k3s/containerd", "/var/lib/k3s/config-v3.toml.d/99-gpushare.toml"
    table = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\n"
    write(root, {config.lstrip("/"): table})

    def find(name: str) -> str | None:
        return name if name in (program, "systemctl") else None

    def run_command(words: list[str]) -> tuple[int, str, str]:
        if program in words:
            return 0, "containerd github.com/k3s-io/containerd v2.1.4-k3s1", ""
        assert "k3s-agent.service" in words
        return 0, "Id=k3s-agent.service\nLoadState=loaded\nActiveState=active\nMainPID=7\n", ""

    engine = {"name": "containerd", "program": program, "service": "k3s-agent", "config": config}
    found = gather(
        str(root), Programs(find, run_command, driver_root=False), ["/"], deep=False, engine=engine
    )
    assert found["programs"]["containerd"] == "2.1.4"
    assert found["services"] == {"k3s-agent": {"state": "active", "pid": 7}}
    assert found["runtimes"]["containerd"]


@pytest.mark.parametrize(
    ("name", "reported", "text"),
    [
        ("docker", "docker", '{"runtimes": {"nvidia": {}}}'),
        ("crio", "cri-o", "[crio.runtime.runtimes.nvidia]\n"),
    ],
)
def test_a_further_settings_file_of_other_engines_is_read(
    name: str, reported: str, text: str, root: Path
) -> None:
    write(root, {"opt/engine.conf": text})
    engine = {"name": name, "program": "", "service": "", "config": "/opt/engine.conf"}
    found = gather(str(root), Programs(absent, None, driver_root=False), ["/"], deep=False, engine=engine)
    assert found["runtimes"] == {"containerd": False, "cri-o": False, "docker": False, "cdi": False} | {
        reported: True
    }
