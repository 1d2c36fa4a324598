"""The day of the packages in a base, and the archives that have the packages of that day.

Pure. What does not belong here: building a base (``release.base``).
"""

from collections.abc import Mapping
from typing import Final

from devkit.errors import DevkitError

SNAPSHOT: Final = "20261005"
"""The day, which is that of a tag of Debian's images (``bookworm-20261005``), so that Renovate can raise it.

A snapshot service has the packages of exactly this day. Without one, a raised day makes each machine build
its base again, from the packages that its mirror has then.
"""

_ARCHIVES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "debian": {"debian": ("", "-updates"), "debian-security": ("-security",)},
    "ubuntu": {"ubuntu": ("", "-updates", "-security")},
}
"""Distribution → archive of a snapshot service → suffixes of its suites."""
_COMPONENTS: Final = {"debian": "main", "ubuntu": "main universe"}


def archives(service: str, distribution: str, suite: str) -> list[str]:
    """Return the lines of a sources.list for the packages of the day.

    Its Release files are no longer valid by date, but signed. Raises DevkitError for an unknown distribution.
    """
    if distribution not in _ARCHIVES:
        raise DevkitError(f"SNAPSHOT_URL: no snapshots of {distribution} are known: unset it")
    options = f"[check-valid-until=no signed-by=/usr/share/keyrings/{distribution}-archive-keyring.gpg]"
    return [
        f"deb {options} {service.rstrip('/')}/{archive}/{SNAPSHOT}T000000Z {suite}{suffix}"
        f" {_COMPONENTS[distribution]}"
        for archive, suffixes in _ARCHIVES[distribution].items()
        for suffix in suffixes
    ]
