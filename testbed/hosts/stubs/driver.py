"""Several branches of the NVIDIA driver, with the package relations of the real archives.

Up to 535 they are those of Debian 12: ``nvidia-driver`` is for desktops and needs neither nvidia-smi nor the
CUDA library nor the persistence daemon, whose versions follow no driver. Source: the index of
http://deb.debian.org/debian, bookworm, non-free and contrib, read on 2026-11-23 (nvidia-graphics-drivers
535.261.03-1, nvidia-persistenced 535.171.04-1~deb12u1, nvidia-modprobe 535.161.07-1~deb12u1). Graphics
libraries and transitions are left out.

580 has the names of NVIDIA's archive from branch 560 on, by its guide (compute-only installation). Its
relations are assumed to be as strict as Debian's, because no index of that archive could be read.

The package of the kernel module fails like DKMS if the headers of the running kernel are missing.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from testbed.hosts.stubs.package import Package, with_service

DEBIAN: Final = ("418.67-1", "418.87.01-1", "470.256.02-1", "535.183.01-1")
"""Versions with the packages of Debian; the first is older than the ACK documentation requires."""
NVIDIA: Final = ("580.178.04-1",)
"""Versions with the packages of NVIDIA's archive."""
PERSISTENCED: Final = "535.171.04-1~deb12u1"
_MODPROBE: Final = "535.161.07-1~deb12u1"
_SUPPORT: Final = "20220217+3~deb12u1"
_OPEN_FROM: Final = "535"
_BUILD: Final = """\
#!/bin/sh -e
[ "$1" = configure ] || exit 0
kernel=$(uname -r)
if [ ! -d "/usr/src/linux-headers-$kernel" ]; then
    echo "no headers of $kernel" >&2
    exit 1
fi
mkdir -p "/var/lib/dkms/nvidia/{upstream}/$kernel"
"""
_REMOVE: Final = '#!/bin/sh -e\nrm -rf "/var/lib/dkms/nvidia/{upstream}"\n'
SMI: Final = """\
#!/bin/sh -e
# A stub for tests: it knows its version, and counts NVIDIA's display devices on the PCI bus.
each() {{
    number=0
    for folder in /sys/bus/pci/devices/*/; do
        [ "$(cat "$folder/vendor")" = 0x10de ] || continue
        case "$(cat "$folder/class")" in 0x03*) ;; *) continue ;; esac
        echo "$1" | sed "s/@/$number/g; s/%/$(basename "$folder")/"
        number=$((number + 1))
    done
}}
case "$*" in
    *--query-gpu=driver_version*) each {upstream} ;;
    *--query-gpu=pci.bus_id,mig.mode.current*) each '0000%, [N/A]' ;;
    -L) each 'GPU @: Stub (UUID: GPU-stub-@)' ;;
    *) echo "nvidia-smi (stub for tests), driver {upstream}" ;;
esac
"""
_INITRAMFS: Final = """\
#!/bin/sh -e
echo "$(date) $*" >>/var/log/stub-update-initramfs.log
"""
DAEMON: Final = "#!/bin/sh\nexec sleep infinity\n"
_FABRIC: Final = """\
#!/bin/sh
loaded=$(nvidia-smi --query-gpu=driver_version | head -n 1)
[ "$loaded" = {upstream} ] || {{ echo "the driver is $loaded, not {upstream}" >&2; exit 1; }}
exec sleep infinity
"""


def driver_packages(kernel: str) -> list[Package]:
    """Return the driver, and its dependencies from the distribution."""
    return [
        *(package for version in DEBIAN for package in _of_debian(version)),
        *_of_every_version(),
        *(package for version in NVIDIA for package in of_nvidia(version)),
        *(package for version in (DEBIAN[-1], *NVIDIA) for package in _fabric(version)),
        Package("nvlsm", "2025.06.6-1", files={"opt/nvidia/nvlsm/sbin/nvlsm": DAEMON}),
        *of_distribution(kernel),
    ]


def of_distribution(kernel: str) -> list[Package]:
    """Return what the drivers need of a distribution."""
    return [
        Package("dkms", "3.0.10-8"),
        Package(f"linux-headers-{kernel}", "1", files={f"usr/src/linux-headers-{kernel}/": ""}),
        # As on Debian, the two meta packages do not depend on each other.
        Package("linux-image-amd64", "6.1.176-1"),
        Package("linux-headers-amd64", "6.1.176-1", f"linux-headers-{kernel}"),
        Package("initramfs-tools", "0.142", files={"usr/sbin/update-initramfs": _INITRAMFS}),
    ]


def _of_debian(version: str) -> Iterator[Package]:
    upstream, same = _upstream(version), f"(= {version})"
    kernel = f"nvidia-kernel-dkms {same} | nvidia-kernel-{upstream} | nvidia-open-kernel-{upstream}"
    branch = f"(>= {upstream.partition('.')[0]})"
    alternative = f"nvidia-alternative {same}"
    graphics = ("nvidia-driver-libs", "xserver-xorg-video-nvidia", "nvidia-vdpau-driver")
    yield Package("nvidia-alternative", version)
    for name in graphics:
        yield Package(name, version, alternative)
    yield Package("nvidia-driver-bin", version, f"{alternative}, libnvidia-ml1 (>= 319)")
    yield Package(
        "nvidia-driver",
        version,
        f"{', '.join(f'{name} {same}' for name in (*graphics, 'nvidia-driver-bin'))}, "
        f"{alternative}, {kernel}, nvidia-support",
        relations={"Recommends": f"libnvidia-cfg1 {same}, nvidia-persistenced {branch}"},
    )
    yield Package(
        "libcuda1",
        version,
        f"nvidia-support, {alternative}, libnvidia-ptxjitcompiler1 {same}",
        relations={
            "Recommends": f"{kernel}, nvidia-smi, libnvidia-cfg1 {same}, nvidia-persistenced {branch}",
            "Suggests": "nvidia-cuda-mps",
        },
    )
    yield Package("libnvidia-ptxjitcompiler1", version)
    yield Package("libnvidia-ml1", version, alternative)
    yield Package("libnvidia-cfg1", version, alternative)
    yield Package("nvidia-cuda-mps", version)
    yield Package(
        "nvidia-smi",
        version,
        f"{alternative}, libnvidia-ml1 {same}",
        files={"usr/bin/nvidia-smi": SMI.format(upstream=upstream)},
        relations={"Recommends": kernel},
    )
    yield from _kernel_of_debian(version, f"{alternative}, nvidia-modprobe {branch}")


def _kernel_of_debian(version: str, support: str) -> Iterator[Package]:
    upstream, open_too = _upstream(version), version > _OPEN_FROM
    for kind in ("", "-open") if open_too else ("",):
        name = f"nvidia{kind}-kernel-support"
        yield Package(name, version, support, relations={"Provides": f"{name}--v1"})
        provided = {"Provides": f"nvidia{kind}-kernel-{upstream}"}
        yield _module(f"nvidia{kind}-kernel-dkms", version, f"{name}--v1, dkms (>= 3.0.3-4~)", provided)


def _of_every_version() -> Iterator[Package]:
    """Yield the packages of Debian that have their own versions."""
    yield Package("nvidia-support", _SUPPORT)
    yield Package("nvidia-modprobe", _MODPROBE)
    daemon = Package(
        "nvidia-persistenced", PERSISTENCED, "libnvidia-cfg1", files={"usr/bin/nvidia-persistenced": DAEMON}
    )
    yield with_service(daemon, "nvidia-persistenced", "/usr/bin/nvidia-persistenced")


def of_nvidia(version: str) -> Iterator[Package]:
    """Yield one version of the driver with the packages of NVIDIA's archive."""
    upstream, same = _upstream(version), f"(= {version})"
    kernel = f"nvidia-kernel-dkms {same} | nvidia-kernel-open-dkms {same}"
    libraries = ("libcuda1", "libnvidia-ml1", "libnvidia-cfg1", "libnvidia-ptxjitcompiler1")
    for name in (*libraries, "nvidia-modprobe"):
        yield Package(name, version)
    parts = ", ".join(f"{name} {same}" for name in (*libraries, "nvidia-persistenced"))
    yield Package(
        "nvidia-driver-cuda",
        version,
        f"{parts}, {kernel}",
        "nvidia-smi, nvidia-cuda-mps",
        files={"usr/bin/nvidia-smi": SMI.format(upstream=upstream)},
        relations={"Replaces": "nvidia-smi, nvidia-cuda-mps"},
    )
    yield Package("nvidia-driver", version, kernel)
    yield Package("cuda-drivers", version, f"nvidia-driver {same}, nvidia-driver-cuda {same}")
    daemon = Package(
        "nvidia-persistenced",
        version,
        f"libnvidia-cfg1 {same}",
        files={"usr/bin/nvidia-persistenced": DAEMON},
    )
    yield with_service(daemon, "nvidia-persistenced", "/usr/bin/nvidia-persistenced")
    for name, other in (("nvidia-kernel-dkms", "-open"), ("nvidia-kernel-open-dkms", "")):
        conflict = {"Conflicts": f"nvidia-kernel{other}-dkms"}
        yield _module(name, version, f"dkms, nvidia-modprobe {same}", conflict)


def _fabric(version: str) -> Iterator[Package]:
    """Yield the fabric manager, which stops if the driver has another version."""
    upstream = _upstream(version)
    script = _FABRIC.format(upstream=upstream)
    package = Package(
        f"nvidia-fabricmanager-{upstream.partition('.')[0]}",
        version,
        files={"usr/bin/nv-fabricmanager": script},
        relations={
            "Provides": "nvidia-fabricmanager",
            "Conflicts": "nvidia-fabricmanager",
            "Replaces": "nvidia-fabricmanager",
        },
    )
    yield with_service(package, "nvidia-fabricmanager", "/usr/bin/nv-fabricmanager")


def _module(name: str, version: str, depends: str, relations: Mapping[str, str]) -> Package:
    scripts = {"postinst": _BUILD, "prerm": _REMOVE}
    filled = {script: text.format(upstream=_upstream(version)) for script, text in scripts.items()}
    return Package(name, version, depends, scripts=filled, relations=relations)


def _upstream(version: str) -> str:
    return version.partition("-")[0]
