"""Writes ``docs/reference/compatibility.md`` from results of tests: ``make compatibility RESULTS=FOLDER``.

What belongs here: which tests ran with which version of another program, and the page. What does not: the
results of one test (``tools.suite.results``), and versions of the testbed (``testbed.programs.binaries``).
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from testbed.programs.binaries import DEFAULT_RELEASE, RELEASES, TOOLS, tool
from tools import provenance
from tools.suite import results
from tools.suite.results import ROLES, Result

ROOT: Final = Path(__file__).parents[1]
DATA: Final = ROOT / "docs/reference/compatibility.json"
PAGE: Final = DATA.with_suffix(".md")

_HEAD: Final = """\
<!-- Generated from compatibility.json by `make compatibility`; change the tests instead. -->
# Compatibility

What gpushare was tried with, counted from the results of a run of all tests: commit {commit}, {date},
{machine}. A test may count in several rows. All of these programs are real; GPUs and their driver are
[simulated](../concepts/testbed.md), also in tests with NVIDIA's programs.

| program | version | what ran | tests passed |
|---|---|---|---|
"""
_TAIL: Final = """
[What has run on a physical GPU](../concepts/physical-gpu.md) is not part of these numbers.

Not tried: Docker and CRI-O as runtimes of a kubelet, Grafana, and hosts without Debian: the real dnf installs
packages of Red Hat and compatible systems, but on a Debian host.
"""


@dataclass(frozen=True)
class Row:
    """One line of the page, and which results count for it."""

    program: str
    version: str
    what: str
    counts: Callable[[Result], bool]


def rows() -> list[Row]:
    """Return the lines of the page."""
    return [*(_release(name) for name in RELEASES), *_OTHER_KUBERNETES, *_NODES, *_CONTROLLERS]


def counted(found: Iterable[Result]) -> list[dict[str, Any]]:
    """Return the lines with the number of passed tests.

    Raises ValueError if a test has failed, and if a line has no test.
    """
    known = list(found)
    if failed := sorted({each.test for each in known if each.outcome == "failed"}):
        raise ValueError(
            f"{len(failed)} tests failed, for example {failed[0]}: use the results of a run that passed"
        )
    passed = [each for each in known if each.outcome == "passed"]
    lines = [(row, sum(map(row.counts, passed))) for row in rows()]
    if empty := [row.program for row, number in lines if not number]:
        raise ValueError(f"no test ran with {', '.join(empty)}: use the results of `make test`")
    return [
        {"program": row.program, "version": row.version, "what": row.what, "passed": number}
        for row, number in lines
    ]


def page(data: Mapping[str, Any]) -> str:
    """Return the page of stored results."""
    head = _HEAD.format(commit=f"`{data['commit']}`", date=data["date"], machine=data["machine"])
    lines = [
        f"| {each['program']} | {each['version']} | {each['what']} | {each['passed']} |\n"
        for each in data["rows"]
    ]
    return head + "".join(lines) + _TAIL


def _release(name: str) -> Row:
    environment = {"TESTBED_KUBERNETES": name}
    kubernetes, etcd = (tool(each, environment).version for each in ("kube-apiserver", "etcd"))
    what = (
        "all tests on a control plane" if name == DEFAULT_RELEASE else "the tests that depend on the release"
    )
    return Row(
        "Kubernetes: control plane, kubelet, kubectl",
        f"{kubernetes}, etcd {etcd}",
        what,
        lambda each: (
            each.file.startswith(("tests/integration/", "tests/e2e/"))
            and (each.release or DEFAULT_RELEASE) == name
        ),
    )


def _needs(name: str) -> Callable[[Result], bool]:
    return lambda each: name in each.needs


def _in_files(*prefixes: str) -> Callable[[Result], bool]:
    return lambda each: each.file.startswith(prefixes)


def _locked(folder: str, package: str) -> str:
    """Return the version of a package in a lock file."""
    locked = tomllib.loads((ROOT / folder / "uv.lock").read_text())["package"]
    return str(next(each["version"] for each in locked if each["name"] == package))


_OTHER_KUBERNETES: Final = (
    Row(
        "kube-scheduler with a Policy file, as the Aliyun pair is installed",
        TOOLS["kube-scheduler-1.22"].version,
        f"beside a control plane {DEFAULT_RELEASE}",
        lambda each: each.file.startswith("tests/integration/") and "1.22" in each.test,
    ),
    Row(
        "Helm",
        TOOLS["helm"].version,
        "install, upgrade, rollback",
        _in_files("tests/integration/test_chart.py"),
    ),
    Row(
        "Pulumi",
        TOOLS["pulumi"].version,
        "`up`, `preview`, `destroy`; with an older language host and provider",
        _in_files("tests/integration/test_pulumi"),
    ),
)
_NODES: Final = (
    Row("containerd, runc of Debian", TOOLS["containerd"].version, "containers on nodes", _needs("kubelet")),
    Row(
        "NVIDIA container toolkit",
        TOOLS["nvidia-ctk"].version,
        "devices in containers",
        _in_files("tests/integration/test_container_devices.py"),
    ),
    Row(
        "cgroup v2 with the systemd driver, containerd and kubelet as above",
        "Linux 6.1 (user-mode Linux of Debian)",
        "node agent, exporter and library on a node with its own kernel",
        _needs("second-kernel"),
    ),
    Row("podman", "of Debian", "images of the services", _needs("images")),
)
_CONTROLLERS: Final = (
    Row(
        "ansible-core",
        f"{_locked('ansible', 'ansible-core')}; {_locked('ansible/legacy', 'ansible-core')}",
        "playbooks and roles on hosts with systemd",
        lambda each: "playbooks" in each.needs or each.kind == ROLES,
    ),
    Row(
        "Prometheus",
        "2.42 of Debian",
        "rules, alerts, queries",
        lambda each: bool({"prometheus", "promtool"} & {*each.needs}),
    ),
    Row(
        "Prometheus as a pod of the stack",
        TOOLS["prometheus"].version,
        "discovery of pods, scrapes, rules",
        lambda each: each.file == "tests/e2e/test_managed.py" and "prometheus" in each.test,
    ),
    Row(
        "prometheus-adapter",
        TOOLS["prometheus-adapter"].version,
        "the rules of the ACK documentation",
        _in_files("tests/integration/test_prometheus_adapter.py"),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write data and page from the results of a run of all tests."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("results", type=Path, help="the folder that GPUSHARE_RESULTS named")
    folder = parser.parse_args(arguments).results
    try:
        lines = counted(results.read(folder))
    except ValueError as error:
        sys.stderr.write(f"compatibility: {error}\n")
        return 1
    where = {"commit": provenance.commit(), "date": provenance.today(), "machine": provenance.machine()}
    DATA.write_text(json.dumps({**where, "rows": lines}, indent=1) + "\n")
    PAGE.write_text(page({**where, "rows": lines}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
