"""The tools of a testbed: cache paths, and binaries of the user that replace them.

What belongs here: the table of tools, cache keys, build commands, and environment variables for other
binaries. What does not: versions (``testbed/tools/*/go.mod``), and building (``testbed.programs.build``).
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gpushare.errors import ConfigError
from testbed.control_plane.stages import STAGE_FILES

SOURCES = Path(__file__).parents[1] / "tools"
_KUBERNETES = "k8s.io/kubernetes/cmd"
_VERSION = "k8s.io/component-base/version"
BUILD_ENV: Mapping[str, str] = {
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",
    "GOFLAGS": "-trimpath -mod=readonly",
}


@dataclass(frozen=True)
class ModuleFiles:
    """Files of a Go module, which are copied into a folder, or into ``into`` below it.

    ``files`` are in ``folder`` of the Go module ``source``, in the version of ``module`` under ``tools/``.
    """

    module: str
    source: str
    folder: str
    files: tuple[str, ...]
    into: str = ""


@dataclass(frozen=True)
class Tool:
    """One program: its Go module under ``tools/``, its package, and the measured build time.

    ``seconds`` is the build time on 2 cores after the tools above it in the table. ``oldest_go`` is
    the first minor version of Go 1 that builds it, ``first_bad_go`` the first later one that does not.
    ``stamp`` is the variable that the linker sets to the version, or "<variable>=<other version>". ``env`` is
    added to ``BUILD_ENV``. ``is_long``: only the long tests need it (``tests/tiers.toml``).
    """

    name: str
    module: str
    package: str
    seconds: int
    oldest_go: int = 26
    first_bad_go: int | None = None
    beside: ModuleFiles | None = None
    stamp: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    is_long: bool = False

    @cached_property
    def version(self) -> str:
        """Its release, from ``go.mod``."""
        required = re.findall(r"(\S+) v(\S+)", (SOURCES / self.module / "go.mod").read_text())
        (found,) = (version for path, version in required if f"{self.package}/".startswith(f"{path}/"))
        # The module of Prometheus 3.15.1 has the version 0.315.1.
        return re.sub(r"^0\.3(\d\d)\.", r"3.\1.", found)

    @property
    def build_env(self) -> dict[str, str]:
        """Environment variables of its build, in addition to those of this process."""
        return {**BUILD_ENV, **self.env}

    @property
    def ldflags(self) -> str:
        """Linker flags: no symbol tables, and a version stamp; the programs of Kubernetes need four."""
        if self.stamp:
            variable, _, other = self.stamp.partition("=")
            return f"-s -w -X {variable}={other or f'v{self.version}'}"
        if not self.package.startswith(_KUBERNETES):
            return "-s -w"
        major, minor, _ = self.version.split(".")
        stamp = {
            "gitVersion": f"v{self.version}",
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }
        return " ".join(["-s -w", *(f"-X {_VERSION}.{name}={value}" for name, value in stamp.items())])


@dataclass(frozen=True)
class Installed:
    """A program that is ready to run; ``stages`` is the folder of the stage files of kwok."""

    path: Path
    stages: Path


_KWOK_MODULE = "sigs.k8s.io/kwok"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_PULUMI = "github.com/pulumi"
_PULUMI_SDK = f"{_PULUMI}/pulumi/sdk/v3"
_PULUMI_KUBERNETES = f"{_PULUMI}/pulumi-kubernetes/provider/v2"
_NVIDIA = "nvidia-container-toolkit"
_NVIDIA_ENV = {
    "CGO_ENABLED": "1",
    # NVML is loaded at run time, if it exists.
    "CGO_LDFLAGS": "-Wl,--unresolved-symbols=ignore-in-object-files",
}
_RUNC_ENV = {"CGO_ENABLED": "1", "GOFLAGS": f"{BUILD_ENV['GOFLAGS']} -tags=seccomp"}
_STAGES = ModuleFiles("kwok", _KWOK_MODULE, "kustomize/stage", STAGE_FILES, "stages")
_PYTHON_EXEC = ModuleFiles("pulumi", _PULUMI_SDK, "python/cmd", ("pulumi-language-python-exec",))
"""Runs a Python program for the language host; from the release of the engine, which is newer."""
_OPERATOR = "prometheus-operator"
OPERATOR_CRDS = ModuleFiles(
    _OPERATOR,
    f"github.com/{_OPERATOR}/{_OPERATOR}",
    f"example/{_OPERATOR}-crd",
    ("monitoring.coreos.com_podmonitors.yaml", "monitoring.coreos.com_prometheusrules.yaml"),
)
"""The definitions of those resources of the Prometheus Operator that a stack may have."""


def _cluster(suffix: str = "") -> tuple[Tool, ...]:
    """Return the programs of a release of Kubernetes, with the etcd that it requires."""
    module = f"kubernetes{suffix}"
    programs = {
        "kube-apiserver": 160,
        "kube-scheduler": 20,
        "kubectl": 20,
        "kube-controller-manager": 40,
        "kubelet": 25,
        "kube-proxy": 20,
    }
    return (
        Tool(f"etcd{suffix}", module, "go.etcd.io/etcd/server/v3", 45),
        *(
            Tool(f"{name}{suffix}", module, f"{_KUBERNETES}/{name}", seconds)
            for name, seconds in programs.items()
        ),
    )


DEFAULT_RELEASE = "1.36"
_TABLE = (
    *_cluster(),
    Tool("containerd", "containerd", f"{_CONTAINERD}/containerd", 90),
    Tool("containerd-shim-runc-v2", "containerd", f"{_CONTAINERD}/containerd-shim-runc-v2", 5),
    Tool("ctr", "containerd", f"{_CONTAINERD}/ctr", 5),
    Tool("runc", "runc", "github.com/opencontainers/runc", 25, env=_RUNC_ENV),
    *(
        Tool(name, _NVIDIA, f"github.com/NVIDIA/{_NVIDIA}/cmd/{name}", seconds, env=_NVIDIA_ENV)
        for name, seconds in (
            ("nvidia-container-runtime", 20),
            ("nvidia-container-runtime-hook", 2),
            ("nvidia-ctk", 6),
            ("nvidia-cdi-hook", 2),
        )
    ),
    Tool("kwok", "kwok", f"{_KWOK_MODULE}/cmd/kwok", 85, beside=_STAGES),
    Tool(
        "kube-scheduler-1.22",
        "kube-scheduler-1.22",
        f"{_KUBERNETES}/kube-scheduler",
        180,
        oldest_go=24,
        # Go 1.27's encoding/json overflows the stack when this scheduler reads a Policy.
        first_bad_go=27,
    ),
    Tool(
        "prometheus-adapter",
        "prometheus-adapter",
        "sigs.k8s.io/prometheus-adapter/cmd/adapter",
        300,
        is_long=True,
    ),
    Tool(
        "prometheus",
        "prometheus",
        "github.com/prometheus/prometheus/cmd/prometheus",
        150,
        is_long=True,
        # Without the discovery of clouds.
        env={"GOFLAGS": f"{BUILD_ENV['GOFLAGS']} -tags=remove_all_sd,enable_kubernetes_sd"},
    ),
    Tool(
        "helm",
        "helm",
        "helm.sh/helm/v3/cmd/helm",
        120,
        stamp="helm.sh/helm/v3/internal/version.version",
    ),
    Tool(
        "helm-4",
        "helm-4",
        "helm.sh/helm/v4/cmd/helm",
        130,
        stamp="helm.sh/helm/v4/internal/version.version",
    ),
    Tool(
        "oauth2-proxy",
        "oauth2-proxy",
        "github.com/oauth2-proxy/oauth2-proxy/v7",
        90,
        stamp="github.com/oauth2-proxy/oauth2-proxy/v7/pkg/version.VERSION",
        is_long=True,
    ),
    # The last release with the language host in this module.
    Tool(
        "pulumi-language-python",
        "pulumi-language-python",
        f"{_PULUMI_SDK}/python/cmd/pulumi-language-python",
        25,
        beside=_PYTHON_EXEC,
        is_long=True,
    ),
    # The last release on the Go module proxy; it is stamped with the version that the locked SDK requires.
    Tool(
        "pulumi-resource-kubernetes",
        "pulumi-kubernetes",
        f"{_PULUMI_KUBERNETES}/cmd/pulumi-resource-kubernetes",
        100,
        stamp=f"{_PULUMI_KUBERNETES}/pkg/version.Version=v4.34.2",
        is_long=True,
    ),
    Tool(
        "pulumi",
        "pulumi",
        f"{_PULUMI}/pulumi/pkg/v3/cmd/pulumi",
        495,
        stamp=f"{_PULUMI_SDK}/go/common/version.Version",
        is_long=True,
    ),
    *_cluster("-1.37"),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _TABLE}
RELEASES = (DEFAULT_RELEASE, "1.37")
"""The minor releases of Kubernetes; the names of the tools of all but the first end with the release."""
_RELEASE = "TESTBED_KUBERNETES"
_ASSETS = "KUBEBUILDER_ASSETS"


def release(env: Mapping[str, str] = os.environ) -> str:
    """Return the minor release of Kubernetes that testbeds run, from ``TESTBED_KUBERNETES``.

    Raises ConfigError for an unknown one.
    """
    name = env.get(_RELEASE) or DEFAULT_RELEASE
    if name not in RELEASES:
        raise ConfigError(f"{_RELEASE}={name!r} is unknown: use one of {', '.join(RELEASES)}, or unset it")
    return name


def names() -> list[str]:
    """Return the names of the tools; those of Kubernetes are without a release."""
    others = tuple(f"-{each}" for each in RELEASES if each != DEFAULT_RELEASE)
    return [name for name in TOOLS if not name.endswith(others)]


def tool(name: str, env: Mapping[str, str] = os.environ) -> Tool:
    """Return the tool ``name``, that of the selected release of Kubernetes if it belongs to Kubernetes.

    Raises ConfigError if there is none.
    """
    if name not in TOOLS:
        raise ConfigError(f"unknown tool {name!r}: use one of {', '.join(TOOLS)}")
    return TOOLS.get(f"{name}-{release(env)}", TOOLS[name])


def cache_key(item: Tool, sources: Path = SOURCES) -> str:
    """Return the version and a hash of everything that determines the build, except the Go version."""
    flags = [item.package, item.ldflags, *(f"{key}={value}" for key, value in sorted(item.build_env.items()))]
    modules = dict.fromkeys([item.module, *([item.beside.module] if item.beside else [])])
    return f"{item.version}-{_digest(modules, flags, sources)}"


def files_key(files: ModuleFiles) -> str:
    """Return the name of the folder in the cache that has the files."""
    return f"{files.module}-{_digest([files.module], [files.folder, *files.files], SOURCES)}"


def _digest(modules: Iterable[str], words: Iterable[str], sources: Path) -> str:
    digest = hashlib.sha256()
    for module in modules:
        for name in ("go.mod", "go.sum"):
            digest.update((sources / module / name).read_bytes())
    digest.update("\0".join(words).encode())
    return digest.hexdigest()[:10]


def cached(item: Tool, root: Path) -> Installed:
    """Return the path of the tool in the cache, whether or not it exists."""
    folder = root / "bin" / f"{item.name}-{cache_key(item)}"
    return Installed(folder / item.name, folder / "stages")


def own(item: Tool, env: Mapping[str, str] = os.environ) -> Installed | None:
    """Return the binary of the user, or None if the environment names none.

    ``TESTBED_<TOOL>`` names a program, and ``KUBEBUILDER_ASSETS`` a folder with programs. The stage files of
    kwok are in ``TESTBED_KWOK_STAGES``, or next to the program. Raises ConfigError for a file that does not
    exist or is not executable.
    """
    variable = variable_of(item.name)
    if name := env.get(variable):
        return _installed(runnable(Path(name), variable), env)
    if (folder := env.get(_ASSETS)) and (path := _in_folder(Path(folder), item.name)):
        return _installed(path, env)
    return None


def variable_of(name: str) -> str:
    """Return the environment variable that names the user's own binary of a tool."""
    return "TESTBED_" + name.upper().replace("-", "_").replace(".", "_")


def runnable(path: Path, variable: str) -> Path:
    """Return the path of a program that ``variable`` names; raise ConfigError if it cannot be run."""
    if not path.is_file():
        raise ConfigError(f"{variable} names {path}, which is not a file: correct or unset it")
    if not os.access(path, os.X_OK):
        raise ConfigError(f"{path} (from {variable}) is not executable: chmod +x it, or correct the variable")
    return path.absolute()


def build_command(item: Tool, go: Path, target: Path) -> list[str]:
    """Return the command that builds the tool; it runs in the tool's module folder."""
    return [str(go), "build", "-ldflags", item.ldflags, "-o", str(target), item.package]


def accepts(item: Tool, go_minor: int) -> bool:
    """Return whether Go 1.``go_minor`` builds a working tool."""
    return go_minor >= item.oldest_go and (item.first_bad_go is None or go_minor < item.first_bad_go)


def _in_folder(folder: Path, name: str) -> Path | None:
    if not folder.is_dir():
        raise ConfigError(f"{_ASSETS} names {folder}, which is not a folder: correct or unset it")
    path = folder / name
    return runnable(path, _ASSETS) if path.exists() else None


def _installed(path: Path, env: Mapping[str, str]) -> Installed:
    return Installed(path, Path(env.get("TESTBED_KWOK_STAGES") or path.with_name("stages")).absolute())
