"""Docker, containerd, CRI-O, cri-dockerd and NVIDIA's container toolkit in several versions.

Like the real daemons, the stubs parse their configuration at start; then they sleep. The repository also
has the real ``containerd`` and ``docker.io`` of Debian.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from testbed.hosts.stubs.package import Package, with_service

DOCKER: Final = (
    "5:19.03.4~3-0~debian-buster",
    "5:19.03.5~3-0~debian-buster",
    "5:19.03.15~3-0~debian-buster",
    "5:24.0.9-1~debian.12~bookworm",
    "5:28.3.3-1~debian.12~bookworm",
)
"""The first is older than the ACK documentation requires."""
CONTAINERD: Final = ("1.6.33-1", "1.7.27-1", "2.1.4-1")
NO_TEXTS: Final[Mapping[str, str]] = MappingProxyType({})
TOOLKIT: Final = ("1.13.5-1", "1.17.8-1", "1.18.0-1")
CRI_O: Final = "1.32.1-1"
CRI_DOCKERD: Final = "0.3.21~3-0~debian-bookworm"
_DOCKERD: Final = """\
#!/bin/sh -e
file=/etc/docker/daemon.json
check=
while [ $# -gt 0 ]; do
    case "$1" in
        --version) echo "Docker version {upstream}, build stub"; exit ;;
        --validate) check=1 ;;
        --config-file) shift; file=$1 ;;
        --config-file=*) file=${{1#*=}} ;;
    esac
    shift
done
[ ! -e "$file" ] || python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$file"
[ -z "$check" ] || {{ echo "configuration OK"; exit; }}
exec sleep infinity
"""
_DOCKER: Final = """\
#!/bin/sh
echo "Docker version {upstream}, build stub"
"""
_CONTAINERD: Final = """\
#!/bin/sh -e
file=/etc/containerd/config.toml
dump=
while [ $# -gt 0 ]; do
    case "$1" in
        --version | -v) echo "containerd containerd.io v{upstream} stub"; exit ;;
        --config | -c) shift; file=$1 ;;
        dump) dump=1 ;;
    esac
    shift
done
[ ! -e "$file" ] || python3 -c 'import sys, tomllib; tomllib.load(open(sys.argv[1], "rb"))' "$file"
[ -z "$dump" ] || {{ cat "$file"; exit; }}
exec sleep infinity
"""
_SLEEPER: Final = """\
#!/bin/sh
[ "$1" != --version ] || {{ echo "{says}"; exit; }}
exec sleep infinity
"""
_CTK: Final = """\
#!/bin/sh
case "$*" in
    *"cdi generate"*)
        echo "cdiVersion: 0.6.0"
        echo "kind: nvidia.com/gpu"
        echo "devices: [{{name: all, containerEdits: {{}}}}]"
        ;;
    *) echo "NVIDIA Container Toolkit CLI version {upstream} (stub for tests)" ;;
esac
"""
_TOOLKIT_CONFIG: Final = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"

[nvidia-container-cli]
environment = []
ldconfig = "@/sbin/ldconfig"

[nvidia-container-runtime]
log-level = "info"
mode = "auto"
"""
_TOOLKIT_POSTINST: Final = f"""\
#!/bin/sh -e
file=/etc/nvidia-container-runtime/config.toml
[ "$1" = configure ] && [ ! -e "$file" ] || exit 0
mkdir -p "${{file%/*}}"
cat >"$file" <<'END'
{_TOOLKIT_CONFIG}END
"""


def runtime_packages() -> list[Package]:
    """Return all runtimes and the toolkit."""
    toolkits = [package for version in TOOLKIT for package in toolkit(version)]
    docker = [package for version in DOCKER for package in _docker(version)]
    return [*docker, *(_containerd(version) for version in CONTAINERD), *toolkits, _cri_o(), _cri_dockerd()]


def _docker(version: str) -> Iterator[Package]:
    upstream = _upstream(version)
    daemon = {"usr/bin/dockerd": _DOCKERD.format(upstream=upstream)}
    package = Package("docker-ce", version, "docker-ce-cli, containerd.io", "docker.io", files=daemon)
    yield with_service(package, "docker", "/usr/bin/dockerd")
    client = {"usr/bin/docker": _DOCKER.format(upstream=upstream)}
    yield Package("docker-ce-cli", version, conflicts="docker.io", files=client)


def _containerd(version: str) -> Package:
    files = {
        "usr/bin/containerd": _CONTAINERD.format(upstream=_upstream(version)),
        "etc/containerd/config.toml": 'disabled_plugins = ["cri"]\n',
    }
    config = ("/etc/containerd/config.toml",)
    package = Package("containerd.io", version, conflicts="containerd, runc", files=files, conffiles=config)
    return with_service(package, "containerd", "/usr/bin/containerd")


def toolkit(version: str, programs: Mapping[str, str] = NO_TEXTS) -> Iterator[Package]:
    """Yield the packages of one version of the toolkit; ``programs`` replaces texts of its stubs, by path."""
    least = f"(>= {version}), {{}} (<< 2)"
    tools = "libnvidia-container-tools"
    yield Package(
        "nvidia-container-toolkit",
        version,
        f"nvidia-container-toolkit-base (= {version}), {tools} {least.format(tools)}",
    )
    stubs = {
        "usr/bin/nvidia-container-runtime": '#!/bin/sh\nexec runc "$@"\n',
        "usr/bin/nvidia-ctk": _CTK.format(upstream=_upstream(version)),
    }
    yield Package(
        "nvidia-container-toolkit-base",
        version,
        files={**stubs, **programs},
        scripts={"postinst": _TOOLKIT_POSTINST},
    )
    library = "libnvidia-container1"
    yield Package(tools, version, f"{library} {least.format(library)}")
    yield Package(library, version)


def _cri_o() -> Package:
    says = _SLEEPER.format(says=f"crio version {_upstream(CRI_O)}")
    files = {"usr/bin/crio": says, "etc/crio/crio.conf.d/": ""}
    return with_service(Package("cri-o", CRI_O, files=files), "crio", "/usr/bin/crio")


def _cri_dockerd() -> Package:
    says = _SLEEPER.format(says=f"cri-dockerd {_upstream(CRI_DOCKERD)} (stub)")
    package = Package("cri-dockerd", CRI_DOCKERD, files={"usr/bin/cri-dockerd": says})
    return with_service(package, "cri-docker", "/usr/bin/cri-dockerd")


def _upstream(version: str) -> str:
    """Return the version between epoch and revision."""
    return version.partition(":")[2].partition("~")[0].partition("-")[0] or version.partition("-")[0]
