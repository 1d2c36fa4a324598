"""Checks whether a host is fit to share its GPUs, from its report and before any change.

What belongs here: one pure function per check. What does not: the report (module ``host_report``), and checks
of the result (``validation``). A problem that a later role fixes is a warning, any other is a failure.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ansible_collections.gpushare.nodes.plugins.module_utils.host_operator import DRIVER_ROOT, TOOLKIT
from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import (
    Check,
    Document,
    Level,
    judged,
    version,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.device_lists import decided, uses_cdi
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpu_drivers import kernel_module, unserved
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model.card_models import is_data_centre
from ansible_collections.gpushare.nodes.plugins.plugin_utils.pci_cards import (
    card_name,
    in_mig_mode,
    is_of_virtual_machine,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.runtimes import (
    ENGINES,
    HOW_TO,
    UNMANAGED,
    kubernetes_version,
    of_kubelet,
    runtime_of,
    unit_state,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.systems import counts_as, refusal

Problems = Iterator[tuple[Level, str]]
_OLDEST_PYTHON: Final = (3, 8)
_OLDEST_KUBERNETES: Final = (1, 16)
_NO_DOCKERSHIM: Final = (1, 24)
_NO_CGROUP_V1: Final = (1, 35)
_OLDEST_DOCKER: Final = (19, 3, 5)
_FIRST_CGROUP_V2: Final = {"docker": (20, 10), "containerd": (1, 4), "cri-o": (1, 20)}
_MIB_PER_GIB: Final = 1024
_FIRST_WITHOUT_LEGACY: Final = (2, 17)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Requirements: the variables of the role preflight, without their prefix."""

    node: str
    ansible_core: str
    kernel_headers: str
    min_free: list[Document]
    unlisted_cards: str
    driver_minimum: str
    driver_version: str
    driver_state: str
    driver_repo: str
    kernel_module_type: str
    container_runtime: str
    container_runtime_engine: str
    container_runtime_state: str
    kubernetes_version: str
    device_list_strategy: str


def checks(report: Document, required: Requirements) -> list[Check]:
    """Return every check of a host, in the order of the table's columns."""
    of_all = (_system, _python, _kernel, _disk, _cgroup, _runtime, _kubelet)
    of_gpus = () if required.node == "plain" else (_cards, _driver)
    of_sharing = (_cpu_policy,) if required.node == "share" else ()
    return [judge(report, required) for judge in (*of_all, *of_gpus, *of_sharing)]


def _system(report: Document, required: Requirements) -> Check:
    name = f"{report['os']['id']} {report['os']['version']}".strip() or "unknown"
    return judged("system", name, _system_problems(report["os"], required))


def _system_problems(os: Document, required: Requirements) -> Problems:
    """A system is a failure only where a role would install packages."""
    states = (required.driver_state, required.container_runtime_state)
    installs = required.node != "plain" and states != (UNMANAGED, UNMANAGED)
    own = required.driver_repo == "own" or required.driver_state == UNMANAGED
    found = counts_as(os)
    if found and found.legacy:
        yield from _legacy_problems(found.name, required, installs=installs)
    elif installs and (reason := refusal(os, repository=own)):
        yield Level.FAIL, reason
    elif not found:
        yield Level.WARN, f"{os['name'] or 'it'} is not in the table of systems, and was never tried"


def _legacy_problems(name: str, required: Requirements, *, installs: bool) -> Problems:
    if installs and version(required.ansible_core) >= _FIRST_WITHOUT_LEGACY:
        text = (
            f"ansible-core {required.ansible_core} cannot install packages on {name}: use 2.16, which `make "
            "setup-ansible` installs in ansible/legacy/.venv"
        )
        yield Level.FAIL, text
    else:
        yield (
            Level.WARN,
            f"{name} is a legacy system and needs ansible-core 2.16: plan to replace it",
        )


def _python(report: Document, required: Requirements) -> Check:
    return judged("python", report["python"], _python_problems(report, required))


def _python_problems(report: Document, required: Requirements) -> Problems:
    if version(report["python"]) < _OLDEST_PYTHON:
        yield Level.WARN, "older than 3.8: only ansible-core 2.16 can manage this host"
    unmanaged = required.driver_state == required.container_runtime_state == UNMANAGED
    if report["apt_library"] is False and required.node != "plain" and not unmanaged:
        text = (
            "the library of apt, with which the roles read the installed packages, is not installed: "
            "apt-get install python3-apt"
        )
        yield Level.FAIL, text


def _kernel(report: Document, required: Requirements) -> Check:
    release, headers = report["kernel"]["release"], report["kernel"]["headers"]
    ignored = required.kernel_headers == "ignored" or required.driver_state == UNMANAGED
    if headers or required.node == "plain" or ignored:
        return Check("kernel", Level.OK, release)
    level = Level.FAIL if required.kernel_headers == "required" else Level.WARN
    problem = (
        f"no headers of kernel {release}: DKMS cannot build the driver; install linux-headers-{release} "
        f"(kernel-devel-{release}), or set preflight_kernel_headers to ignored for a precompiled driver"
    )
    return Check("kernel", level, f"{release}, no headers", problem)


def _disk(report: Document, required: Requirements) -> Check:
    wanted = {entry["path"]: int(entry["mib"]) for entry in required.min_free}
    free = {path: report["disk"][path]["free_mib"] for path in wanted}
    found = ", ".join(f"{path} {_gib(mib)}" for path, mib in free.items())
    problems = [
        (Level.FAIL, f"{path} has {free[path]} MiB free, preflight_min_free requires {mib}: free disk space")
        for path, mib in wanted.items()
        if free[path] < mib
    ]
    return judged("disk", found, problems)


def _gib(mib: int) -> str:
    return f"{mib / _MIB_PER_GIB:.1f}G"


def _cgroup(report: Document, required: Requirements) -> Check:
    return judged("cgroup", report["cgroup"], _cgroup_problems(report, required))


def _cgroup_problems(report: Document, required: Requirements) -> Problems:
    found = report["cgroup"]
    kubernetes = kubernetes_version(report, required.kubernetes_version)
    runtime = runtime_of(report, required.container_runtime)
    if found == "none":
        yield Level.FAIL, "no cgroups are mounted at /sys/fs/cgroup: containers cannot run on this host"
    if found in ("v1", "hybrid") and kubernetes >= _NO_CGROUP_V1:
        text = (
            f"from 1.35 on, the kubelet does not start with cgroup {found} unless failCgroupV1 is false; "
            "boot with systemd.unified_cgroup_hierarchy=1"
        )
        yield Level.WARN, text
    if found == "v2" and runtime:
        has = version(report["programs"][runtime])
        if has and has < _FIRST_CGROUP_V2[runtime]:
            text = (
                f"{runtime} {_dotted(has)} supports cgroup v1 only, and this host has v2: upgrade it, or "
                "boot with systemd.unified_cgroup_hierarchy=0"
            )
            yield Level.FAIL, text


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _runtime(report: Document, required: Requirements) -> Check:
    runtime = runtime_of(report, required.container_runtime)
    if not runtime:
        problem = "no container runtime is installed: the role container_runtime installs one"
        return Check("runtime", Level.WARN, "none", problem)
    installed = report["programs"][runtime]
    problems = [*_runtime_problems(report, runtime)]
    if required.node != "plain" and required.container_runtime_state != UNMANAGED:
        problems += [*_engine_problems(report, required), *_toolkit_problems(report)]
    kubernetes = kubernetes_version(report, required.kubernetes_version)
    if runtime == "docker" and kubernetes >= _NO_DOCKERSHIM:
        problems += _dockerd_problems(report, kubernetes)
    return judged("runtime", f"{runtime} {installed}" if installed else f"no {runtime}", problems)


def _runtime_problems(report: Document, runtime: str) -> Problems:
    installed, state = report["programs"][runtime], unit_state(report, ENGINES[runtime])
    if not installed:
        yield Level.WARN, f"{runtime} is not installed: the role container_runtime installs it"
    elif state != "active":
        yield Level.WARN, f"its service {ENGINES[runtime]} is {state}: systemctl status {ENGINES[runtime]}"
    if installed and runtime == "docker" and version(installed) < _OLDEST_DOCKER:
        yield Level.WARN, "docker before 19.03.5 is too old: the role container_runtime installs a newer one"


def _engine_problems(report: Document, required: Requirements) -> Problems:
    """The role would configure, or even install, an engine that runs no pods."""
    used, engine = of_kubelet(report), required.container_runtime_engine
    if used and engine and ENGINES[used] != engine:
        text = (
            f"the kubelet uses {used}, and container_runtime_engine is {engine}: set "
            f"container_runtime_engine to {ENGINES[used]}"
        )
        yield Level.FAIL, text


def _toolkit_problems(report: Document) -> Problems:
    """Two installations of the toolkit would configure the same runtime."""
    if report["operator"]["toolkit"]:
        text = (
            f"NVIDIA's toolkit in {TOOLKIT} is of the GPU Operator: set container_runtime_state to "
            f"{UNMANAGED}, and the toolkit in the ClusterPolicy ({HOW_TO})"
        )
        yield Level.FAIL, text


def _dockerd_problems(report: Document, kubernetes: tuple[int, ...]) -> Problems:
    if not report["programs"]["cri-dockerd"]:
        text = (
            f"Kubernetes {_dotted(kubernetes[:2])} has no dockershim: docker needs cri-dockerd from 1.24 on; "
            "install it, or set the node's runtime to containerd"
        )
        yield Level.FAIL, text
    elif unit_state(report, "cri-docker") != "active":
        state = unit_state(report, "cri-docker")
        yield Level.FAIL, f"docker needs cri-dockerd, but its service cri-docker is {state}: start it"


def _kubelet(report: Document, required: Requirements) -> Check:
    found = kubernetes_version(report, required.kubernetes_version)
    if not report["programs"]["kubelet"]:
        problem = "no kubelet is installed: the host runs no pods until it joins a cluster"
        return Check("kubelet", Level.WARN, "none", problem)
    if found < _OLDEST_KUBERNETES:
        problem = "the extender needs Kubernetes 1.16 or later: upgrade the cluster"
        return Check("kubelet", Level.FAIL, _dotted(found), problem)
    return Check("kubelet", Level.OK, _dotted(found))


def _cards(report: Document, required: Requirements) -> Check:
    gpus = report["gpus"]
    if not gpus:
        problem = (
            "no NVIDIA GPU on the PCI bus: check `lspci -nn -d 10de:` and the PCI passthrough of the host; "
            "for a host without GPUs set preflight_node to plain"
        )
        return Check("cards", Level.FAIL, "none", problem)
    names = Counter(card_name(gpu["device"], gpu["name"]) for gpu in gpus)
    found = ", ".join(f"{count} × {name}" for name, count in names.items())
    return judged("cards", found, [*_card_problems(gpus, required), *_mig_problems(report, required)])


def _card_problems(gpus: list[Document], required: Requirements) -> Problems:
    for gpu in gpus:
        name = card_name(gpu["device"], gpu["name"])
        if not is_data_centre(name):
            refused = required.unlisted_cards == "refuse"
            consequence = (
                "and preflight_unlisted_cards is refuse: remove the GPU, or set the variable to warn"
                if refused
                else "but can be shared"
            )
            text = f"{name} in slot {gpu['slot']} is no data-centre GPU, {consequence}"
            yield Level.FAIL if refused else Level.WARN, text
        if is_of_virtual_machine(gpu):
            text = (
                f"{name} in slot {gpu['slot']} is assigned to virtual machines: detach it from "
                f"{gpu['driver']} first"
            )
            yield Level.WARN, text


def _mig_problems(report: Document, required: Requirements) -> Problems:
    partitioned = in_mig_mode(report["gpus"], report["mig"]) if required.node == "share" else []
    yield from ((Level.WARN, text) for text in partitioned)


def _driver(report: Document, required: Requirements) -> Check:
    loaded, installed = report["driver"]["loaded"], report["programs"]["nvidia-module"]
    found = loaded or (f"{installed}, not loaded" if installed else "none")
    has = version(loaded or installed)
    problems = []
    if has and has < version(required.driver_minimum):
        problems.append((Level.WARN, f"older than {required.driver_minimum}, the oldest supported version"))
    others = _unmanaged_problems if required.driver_state == UNMANAGED else _change_problems
    return judged("driver", found, [*problems, *others(report, required, has)])


def _unmanaged_problems(report: Document, required: Requirements, has: tuple[int, ...]) -> Problems:
    del required
    if not has:
        text = f"no driver, and nvidia_driver_state is {UNMANAGED}: check the driver pods of the GPU Operator"
        yield Level.WARN, text
    if report["driver"]["nouveau"]:
        yield Level.WARN, "nouveau is loaded: disable it and reboot"


def _change_problems(report: Document, required: Requirements, has: tuple[int, ...]) -> Problems:
    if report["operator"]["driver"]:
        text = (
            f"the driver is in a container of the GPU Operator ({DRIVER_ROOT}): set nvidia_driver_state to "
            f"{UNMANAGED} ({HOW_TO})"
        )
        yield Level.FAIL, text
        return
    if report["driver"]["nouveau"]:
        yield Level.WARN, "nouveau is loaded: run the role nvidia_driver, which disables it, and reboot"
    yield from _secure_boot_problems(report, required)
    if has and required.driver_version and has != version(required.driver_version):
        text = (
            f"{required.driver_version} is requested: playbook nodes stops before any change unless "
            "nvidia_driver_reboot is true; playbook upgrade_driver takes the node out of service for it"
        )
        yield Level.WARN, text
    if required.driver_version:
        yield from _unserved_problems(report["gpus"], required)


def _unserved_problems(gpus: list[Document], required: Requirements) -> Problems:
    target = required.driver_version
    fault = unserved(gpus, target, kernel_module(gpus, target, required.kernel_module_type))
    if fault:
        yield Level.WARN, f"{fault}; the role nvidia_driver stops before any change"


def _secure_boot_problems(report: Document, required: Requirements) -> Problems:
    boot, built = report["secure_boot"], required.kernel_headers != "ignored"
    if boot["enabled"] and not boot["module_key"] and not report["driver"]["loaded"] and built:
        text = (
            "Secure Boot is enabled, and no key of DKMS is enrolled: the role nvidia_driver stops before any "
            "change; enroll the key with mokutil first"
        )
        yield Level.WARN, text


def _cpu_policy(report: Document, required: Requirements) -> Check:
    """Whether the CPU manager may take the GPUs of containers.

    The policy static changes the CPUs of running containers. Their runtime then sets the devices again that
    it knows: those of CDI, and not those that NVIDIA's hook has added (nvidia-docker issue 966).
    """
    policy = report["kubelet"]["cpu_manager_policy"] or "none"
    kept = report["kubelet"]["cpu_manager_state"] or policy
    found = policy if kept == policy else f"{policy}, state file {kept}"
    if "static" not in (policy, kept):
        return Check("cpu policy", Level.OK, found)
    choice, runtime = required.device_list_strategy, required.container_runtime
    passed = decided(report, choice, runtime)
    if uses_cdi(passed):
        return Check("cpu policy", Level.OK, found)
    if required.container_runtime_state != UNMANAGED and uses_cdi(
        decided(report, choice, runtime, with_toolkit=True)
    ):
        problem = (
            f"containers would lose their GPU until the role container_runtime has run ({passed.reason})"
        )
        return Check("cpu policy", Level.WARN, found, problem)
    problem = (
        "with the CPU manager policy static, containers lose their GPU unless the device plugin names it by "
        f"CDI, which it would not ({passed.reason}): set kubelet_tuning_device_list_strategy and, in the "
        "stack, deviceListStrategy to auto and give the host what is missing, or drain the node, set "
        "kubelet_tuning_cpu_manager_policy to none and run the role kubelet_tuning, which also removes "
        "/var/lib/kubelet/cpu_manager_state and restarts the kubelet"
    )
    return Check("cpu policy", Level.FAIL, found, problem)
