"""Several branches of the NVIDIA driver, with the package names of NVIDIA's archive for Debian 12.

The package of the kernel module fails like DKMS if the headers of the running kernel are missing.
"""

from collections.abc import Iterator
from typing import Final

from testbed.hosts.stubs.package import Package, with_service

VERSIONS: Final = ("418.67-1", "418.87.01-1", "470.256.02-1", "535.183.01-1", "580.65.06-1")
"""The first is older than the ACK documentation requires."""
_OPEN: Final = VERSIONS[-2:]
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
_SMI: Final = """\
#!/bin/sh -e
# A stub for tests: it knows its version, and counts NVIDIA's display devices on the PCI bus.
each() {{
    number=0
    for folder in /sys/bus/pci/devices/*/; do
        [ "$(cat "$folder/vendor")" = 0x10de ] || continue
        case "$(cat "$folder/class")" in 0x03*) ;; *) continue ;; esac
        echo "$1" | sed "s/@/$number/g"
        number=$((number + 1))
    done
}}
case "$*" in
    *--query-gpu=driver_version*) each {upstream} ;;
    -L) each 'GPU @: Stub (UUID: GPU-stub-@)' ;;
    *) echo "nvidia-smi (stub for tests), driver {upstream}" ;;
esac
"""
_INITRAMFS: Final = """\
#!/bin/sh -e
echo "$(date) $*" >>/var/log/stub-update-initramfs.log
"""


def driver_packages(kernel: str) -> list[Package]:
    """Return the driver, and its dependencies from the distribution."""
    return [
        *(package for version in VERSIONS for package in _branch(version)),
        Package("dkms", "3.0.10-8"),
        Package(f"linux-headers-{kernel}", "1", files={f"usr/src/linux-headers-{kernel}/": ""}),
        Package("linux-headers-amd64", "1", f"linux-headers-{kernel}"),
        Package("initramfs-tools", "0.142", files={"usr/sbin/update-initramfs": _INITRAMFS}),
    ]


def _branch(version: str) -> Iterator[Package]:
    upstream = version.partition("-")[0]
    least = f"(>= {version})"
    kernel = f"nvidia-kernel-dkms {least} | nvidia-kernel-open-dkms {least}"
    yield Package("nvidia-driver", version, f"{kernel}, nvidia-smi {least}, nvidia-persistenced {least}")
    yield Package("cuda-drivers", version, f"nvidia-driver {least}")
    yield Package("nvidia-smi", version, files={"usr/bin/nvidia-smi": _SMI.format(upstream=upstream)})
    yield _module("nvidia-kernel-dkms", version, "nvidia-kernel-open-dkms")
    if version in _OPEN:
        yield _module("nvidia-kernel-open-dkms", version, "nvidia-kernel-dkms")
    daemon = {"usr/bin/nvidia-persistenced": "#!/bin/sh\nexec sleep infinity\n"}
    package = Package("nvidia-persistenced", version, files=daemon)
    yield with_service(package, "nvidia-persistenced", "/usr/bin/nvidia-persistenced")


def _module(name: str, version: str, other: str) -> Package:
    upstream = version.partition("-")[0]
    scripts = {"postinst": _BUILD, "prerm": _REMOVE}
    filled = {script: text.format(upstream=upstream) for script, text in scripts.items()}
    return Package(name, version, "dkms", other, scripts=filled)
