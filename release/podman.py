"""Podman's and skopeo's command lines, on a store of our own: the user's images are not touched.

Pure. What does not belong here: running them (``release.build``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LOCAL: Final = "localhost/gpushare"
_LIST: Final = "all"
"""Stands for all platforms of an image."""
_EPOCH: Final = "--timestamp=0"
"""The same files give the same digest, whenever they are built."""


@dataclass(frozen=True)
class Store:
    """Where podman keeps images and layers.

    ``folder`` outlives a reboot, ``run`` need not; podman takes no more than 50 characters for it.
    """

    folder: Path
    run: Path

    def command(self, *words: str) -> list[str]:
        """A podman command on this store."""
        where = [f"--root={self.folder}", f"--runroot={self.run}"]
        # Nothing is run but builds, so the host's control groups need no manager.
        return ["podman", *where, "--storage-driver=overlay", "--cgroup-manager=cgroupfs", *words]

    def build(
        self,
        folder: Path,
        containerfile: Path,
        name: str,
        arguments: Mapping[str, str],
        secrets: Mapping[str, Path] | None = None,
        flags: Sequence[str] = (),
    ) -> list[str]:
        """Build ``folder`` with ``containerfile`` to the image ``name``.

        Commands of the build run in a plain chroot on the host's network: containers of their own need
        rights that not every build machine gives.
        """
        return self.command(
            "build",
            "--quiet",
            "--format=oci",
            "--isolation=chroot",
            "--layers",
            "--network=host",
            _EPOCH,
            *(f"--build-arg={key}={value}" for key, value in arguments.items()),
            *(f"--secret=id={key},src={path}" for key, path in (secrets or {}).items()),
            *flags,
            f"--file={containerfile}",
            f"--tag={name}",
            str(folder),
        )

    def forget(self, service: str) -> list[str]:
        """Remove the list of manifests of an earlier build; fails where there is none."""
        return self.command("manifest", "rm", stage_name(service, _LIST))

    def join(self, service: str, platforms: Sequence[str]) -> list[str]:
        """Make a list of manifests out of a service's images for several platforms."""
        parts = [f"containers-storage:{stage_name(service, platform)}" for platform in platforms]
        return self.command("manifest", "create", stage_name(service, _LIST), *parts)

    def export(self, service: str, layout: Path, *, several: bool) -> list[str]:
        """Add a service's image, compressed, to an OCI layout, as what a registry would take."""
        verb = ["manifest", "push", "--all"] if several else ["push", "--compression-format=gzip"]
        name = stage_name(service, _LIST if several else "")
        return self.command(*verb, "--quiet", "--format=oci", name, f"oci:{layout}:{service}")


def copy(source: str, target: str) -> list[str]:
    """Copy an image with all its platforms to a registry, byte for byte."""
    return ["skopeo", "copy", "--quiet", "--all", "--preserve-digests", source, target]


def stage_name(stage: str, platform: str = "") -> str:
    """What a stage is called in the store; for ``platform`` where several are built."""
    return f"{_LOCAL}/{stage}" + (f":{platform.replace('/', '-')}" if platform else "")


def platforms_or_own(platforms: Sequence[str]) -> Sequence[str]:
    """The platforms to build for; the empty one is the machine's own."""
    return platforms or ("",)
