"""Requirements of a test for the machine: ``@pytest.mark.needs("kubelet", "images")``.

What belongs here: one check for each need. What does not: skipping (``tests/conftest.py``). The checks import
what they call when they run: the tests of the collection load this module in a separate environment.
"""

import ctypes.util
import functools
import os
import platform
import re
import shutil
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
_MAPPED_TMPFS = (6, 3)
PLAYBOOK = ROOT / "ansible" / ".venv" / "bin" / "ansible-playbook"


@functools.cache
def missing(need: str) -> str:
    """Return what the machine lacks for this need, or "" if nothing. Raises KeyError for an unknown need."""
    return _CHECKS[need]()


def all_required() -> bool:
    """Whether a missing requirement is a failure, as in the job of the pipeline that must run everything."""
    return bool(os.environ.get("GPUSHARE_REQUIRE_ALL"))


def _testbed(look: Callable[[], object]) -> str:
    from devkit.errors import DevkitError  # noqa: PLC0415 - see the module

    try:
        look()
    except DevkitError as reason:
        return str(reason)
    return ""


def _kubelet() -> str:
    from testbed.kubelets import needs  # noqa: PLC0415 - see the module

    return _testbed(needs.look)


def _second_kernel() -> str:
    from testbed.uml import needs  # noqa: PLC0415 - see the module

    return _testbed(needs.look)


def _hosts() -> str:
    from testbed.hosts import needs  # noqa: PLC0415 - see the module

    return _testbed(needs.look)


def _debian_13() -> str:
    from testbed.hosts import base  # noqa: PLC0415 - see the module

    return _testbed(lambda: base.archives_here("trixie"))


def _images() -> str:
    import release  # noqa: PLC0415 - see the module

    return _testbed(release.look)


def _debian(program: str) -> str:
    from testbed.programs import debian  # noqa: PLC0415 - see the module

    return _testbed(lambda: debian.program(program))


def _registry() -> str:
    return _debian("docker-registry") or _program("skopeo", "skopeo")


def _playbooks() -> str:
    if PLAYBOOK.exists():
        return ""
    return f"there is no {PLAYBOOK.relative_to(ROOT)}: run `make setup-ansible`"


def _root() -> str:
    return "" if os.geteuid() == 0 else "this test needs the rights of root"


def _program(name: str, package: str) -> str:
    return "" if shutil.which(name) else f"there is no {name} (apt-get install {package})"


def browser() -> str | None:
    """A Chromium, as Debian, Ubuntu or Google name it."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def _no_driver() -> str:
    return "this machine has an NVIDIA driver" if ctypes.util.find_library("nvidia-ml") else ""


def _arm64_compiler() -> str:
    packages = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    if not Path("/usr/aarch64-linux-gnu").is_dir():
        return f"there is no C library for arm64 (apt-get install {packages})"
    return _program("aarch64-linux-gnu-gcc", packages)


def _namespaces() -> str:
    return _root() or _program("ip", "iproute2") or _program("nsenter", "util-linux")


def _mapped_mounts() -> str:
    """For pods with a user namespace: their volumes may be in memory."""
    release = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
    return (
        "" if release >= _MAPPED_TMPFS else "this kernel does not map the IDs of mounts in memory (6.3 does)"
    )


_CHECKS: dict[str, Callable[[], str]] = {
    "apt": lambda: "" if shutil.which("apt-get") else "there is no apt-get: this is not Debian",
    "arm64-compiler": _arm64_compiler,
    "arm64-emulator": lambda: _program("qemu-aarch64", "qemu-user"),
    "chromium": lambda: "" if browser() else "there is no Chromium (apt-get install chromium)",
    "compiler": lambda: _program("gcc", "gcc"),
    "debian-13": _debian_13,
    "hosts": _hosts,
    "images": _images,
    "kubelet": _kubelet,
    "make": lambda: _program("make", "make"),
    "mapped-mounts": _mapped_mounts,
    "playbooks": _playbooks,
    "prometheus": lambda: _debian("prometheus"),
    "promtool": lambda: _debian("promtool"),
    "registry": _registry,
    "namespaces": _namespaces,
    "no-driver": _no_driver,
    "root": _root,
    "second-kernel": _second_kernel,
    "unshare": lambda: _program("unshare", "util-linux"),
}
