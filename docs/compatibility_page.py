"""The page of the programs that gpushare runs with in the tests, generated from their pinned versions."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from testbed.programs.binaries import DEFAULT_RELEASE, RELEASES, SOURCES, TOOLS, tool

_ROOT = Path(__file__).parents[1]
_HEAD = """\
# Compatibility

The programs with which `make test-all` runs. All are real; GPUs and their driver are
[simulated](../project/testbed.md), also in tests with NVIDIA's programs.

| program | version | what runs | tests |
|---|---|---|---|
"""
_TAIL = """
## Kubernetes releases

| release | what ran | what was only rendered |
|---|---|---|
| {releases} | control plane, scheduler, kubelet and our services, as above | |
| {policy} | its kube-scheduler, beside a newer control plane | the objects of our services |
| other releases from 1.16 on | nothing | the objects of our services, and the scheduler's configuration: \
unit tests check both by release |
| before 1.16 | nothing | nothing: such a version is refused by name |

The chart needs 1.30 or later.

## Run by hand

arena 0.15.5 (`kubeflow/arena`, commit e30882c1 of 2026-07-28) on 2026-11-29, against the clusters of the
tutorials on a control plane 1.36: `arena top node`, with `-d`, `-m share` and `-o json`. It recognizes our
nodes as GPU sharing, and shows the units of the node, the GPU and each pod as `kubectl gpushare top node -s
-d` does (12 of 14, 8 of 15). The tables of arena have another layout than the tables of the ACK
documentation; our tables keep the layout of the documentation. arena counts GPUs in fractions (0.5/1), and
our tables count GPUs in use (1/1). arena shows units as GiB even if they are MiB. By its code, arena does not
find the GPUs of a pod on several GPUs, and shows no series of our exporters.

[What has run on a physical GPU](../project/physical-gpu.md) is on a page of its own.

Not tried: Docker and CRI-O as runtimes of a kubelet, Grafana, and hosts without Debian. The real dnf and apt
install packages with the names of Red Hat and Ubuntu, but on a Debian host.
"""


_POLICY_RELEASE = "1.22"


def page() -> str:
    """The page."""
    rows = [*map(_kubernetes, RELEASES), *_of_clusters(), *_around_clusters()]
    tail = _TAIL.format(releases=", ".join(RELEASES), policy=_POLICY_RELEASE)
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows) + tail


def _kubernetes(release: str) -> tuple[str, ...]:
    environment = {"TESTBED_KUBERNETES": release}
    kubernetes, etcd = (tool(each, environment).version for each in ("kube-apiserver", "etcd"))
    what, marked = "all tests on a control plane", ""
    if release != DEFAULT_RELEASE:
        what, marked = "the tests that depend on the release", ", marked `kubernetes`"
    return (
        "Kubernetes: control plane, kubelet, kubectl",
        f"{kubernetes}, etcd {etcd}",
        what,
        f"`tests/integration`{marked}",
    )


def _of_clusters() -> Iterator[tuple[str, ...]]:
    """Schedulers, what deploys to a cluster, and what runs on its nodes."""
    yield (
        "kube-scheduler with a Policy file, as the Aliyun pair is installed",
        TOOLS[f"kube-scheduler-{_POLICY_RELEASE}"].version,
        f"beside a control plane {DEFAULT_RELEASE}",
        f"`tests/integration`, named `{_POLICY_RELEASE}`",
    )
    for name in ("helm", "helm-4"):
        yield "Helm", TOOLS[name].version, "install, upgrade, rollback", "`tests/integration/test_chart.py`"
    yield (
        "oauth2-proxy",
        TOOLS["oauth2-proxy"].version,
        "sign-in to the board through OIDC",
        "`tests/integration/test_board_sign_in.py`",
    )
    yield (
        "Pulumi",
        TOOLS["pulumi"].version,
        "`up`, `preview`, `destroy`; with an older language host and provider",
        "`tests/integration/test_pulumi.py`",
    )
    yield (
        "containerd, runc",
        f"{TOOLS['containerd'].version}, {TOOLS['runc'].version}",
        "containers on nodes",
        "`tests/integration/test_kubelets.py` and others with kubelets",
    )
    yield (
        "NVIDIA container toolkit",
        TOOLS["nvidia-ctk"].version,
        "devices in containers",
        "`tests/integration/test_container_devices.py`",
    )
    yield (
        "cgroup v2 with the systemd driver, containerd and kubelet as above",
        "Linux 6.1 (user-mode Linux of Debian), runc 1.1 of Debian",
        "node agent, exporter and library on a node with its own kernel",
        "`tests/integration/test_cgroup_v2.py`",
    )


def _around_clusters() -> Iterator[tuple[str, ...]]:
    """What builds, prepares and watches a cluster."""
    yield "podman", "of Debian", "images of the services", "`tests/integration/test_images.py`"
    yield (
        "ansible-core",
        "; ".join(_locked(f"ansible{each}") for each in ("", "/legacy", "/newest")),
        "playbooks and roles on hosts with systemd",
        "`ansible/extensions/molecule`, `tests/ansible`",
    )
    yield "Prometheus", "2.42 of Debian", "rules, alerts, queries", "`tests/monitoring`"
    yield (
        "Prometheus as a pod of the stack",
        TOOLS["prometheus"].version,
        "discovery of pods, scrapes, rules",
        "`tests/e2e/test_managed.py`",
    )
    yield (
        "prometheus-adapter",
        TOOLS["prometheus-adapter"].version,
        "the rules of the ACK documentation",
        "`tests/integration/test_prometheus_adapter.py`",
    )
    yield (
        "definitions of KServe, KubeRay, Kueue",
        ", ".join(_required(module) for module in ("kserve", "kuberay", "kueue")),
        "the objects of the [recipes](../how-to/recipes.md), without the operators",
        "`tests/integration/test_recipes.py`",
    )


def _required(module: str) -> str:
    """The version that a Go module of the testbed requires."""
    _, _, version = (SOURCES / module / "go.mod").read_text().rpartition(" v")
    return version.strip()


def _locked(folder: str) -> str:
    """The version of ansible-core in a lock file."""
    packages = tomllib.loads((_ROOT / folder / "uv.lock").read_text())["package"]
    return str(next(each["version"] for each in packages if each["name"] == "ansible-core"))
