"""The command lines of podman and skopeo, on a separate store, so that images of the user do not change.

Pure. What does not belong here: running them (``release.build``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LOCAL: Final = "localhost/gpushare"
_LIST: Final = "all"
"""Tag of the list of manifests of all platforms."""
_EPOCH: Final = "--timestamp=0"
"""Equal files give equal digests at any time."""


@dataclass(frozen=True)
class Store:
    """The folders of podman for images and layers.

    ``folder`` must survive a reboot, ``run`` need not; podman allows at most 50 characters for ``run``.
    """

    folder: Path
    run: Path

    def command(self, *words: str) -> list[str]:
        """Return a podman command on this store."""
        folders = [f"--root={self.folder}", f"--runroot={self.run}"]
        # Only builds run, so no manager of cgroups is needed.
        return ["podman", *folders, "--storage-driver=overlay", "--cgroup-manager=cgroupfs", *words]

    def build(
        self,
        folder: Path,
        containerfile: Path,
        name: str,
        arguments: Mapping[str, str],
        secrets: Mapping[str, Path] | None = None,
        flags: Sequence[str] = (),
        *,
        pull: bool = False,
    ) -> list[str]:
        """Return the command that builds ``folder`` with ``containerfile`` to the image ``name``.

        Commands of the build run in a chroot on the network of the host: containers would require privileges
        that not every build machine grants. ``pull`` asks the registries for newer images of the same names.
        """
        return self.command(
            "build",
            "--quiet",
            "--format=oci",
            "--isolation=chroot",
            "--layers",
            "--network=host",
            *(["--pull=always"] if pull else []),
            _EPOCH,
            *(f"--build-arg={key}={value}" for key, value in arguments.items()),
            *(f"--secret=id={key},src={path}" for key, path in (secrets or {}).items()),
            *flags,
            f"--file={containerfile}",
            f"--tag={name}",
            str(folder),
        )

    def remove_list(self, service: str) -> list[str]:
        """Return the command that removes the list of manifests of an earlier build, which must exist."""
        return self.command("manifest", "rm", stage_name(service, _LIST))

    def create_list(self, service: str, platforms: Sequence[str]) -> list[str]:
        """Return the command that creates a list of manifests from the images of several platforms."""
        parts = [f"containers-storage:{stage_name(service, platform)}" for platform in platforms]
        return self.command("manifest", "create", stage_name(service, _LIST), *parts)

    def export(self, service: str, layout: Path, *, several: bool) -> list[str]:
        """Return the command that adds the compressed image of a service to an OCI layout."""
        verb = ["manifest", "push", "--all"] if several else ["push", "--compression-format=gzip"]
        name = stage_name(service, _LIST if several else "")
        return self.command(*verb, "--quiet", "--format=oci", name, f"oci:{layout}:{service}")


def copy(source: str, target: str) -> list[str]:
    """Return the command that copies an image with all its platforms to a registry, byte for byte."""
    return ["skopeo", "copy", "--quiet", "--all", "--preserve-digests", source, target]


def stage_name(stage: str, platform: str = "") -> str:
    """Return the name of a stage in the store; with ``platform`` if several are built."""
    return f"{_LOCAL}/{stage}" + (f":{platform.replace('/', '-')}" if platform else "")


def platforms_or_own(platforms: Sequence[str]) -> Sequence[str]:
    """Return the platforms to build for; the empty one is that of the machine."""
    return platforms or ("",)
