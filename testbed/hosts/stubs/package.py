"""One stub package as a value, and the scripts of a package with a service.

What does not belong here: the list of stubs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

SECTION = "Stub for tests: nothing of what the name says is inside"


@dataclass(frozen=True)
class Package:
    """A package without architecture.

    ``files`` maps paths without leading slash to texts; those that begin with ``#!`` are programs. A path
    that ends with a slash is a folder. ``scripts`` maps names of maintainer scripts to texts, ``relations``
    further fields of the control file, such as Recommends.
    """

    name: str
    version: str
    depends: str = ""
    conflicts: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    conffiles: Sequence[str] = ()
    scripts: Mapping[str, str] = field(default_factory=dict)
    relations: Mapping[str, str] = field(default_factory=dict)

    @property
    def control(self) -> str:
        """The control file."""
        relations = {"Depends": self.depends, "Conflicts": self.conflicts, **self.relations}
        lines = [
            f"Package: {self.name}",
            f"Version: {self.version}",
            "Architecture: all",
            "Maintainer: The tests <root@localhost>",
            *(f"{key}: {value}" for key, value in relations.items() if value),
            f"Description: {SECTION}",
        ]
        return "\n".join(lines) + "\n"


def with_service(package: Package, service: str, command: str) -> Package:
    """Return the package with a service that runs ``command``, enabled and started on installation."""
    unit = (
        f"[Unit]\nDescription={service} (stub for tests)\n"
        f"[Service]\nExecStart={command}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    alive = "[ -d /run/systemd/system ] || exit 0"
    start = f"#!/bin/sh -e\n{alive}\nsystemctl daemon-reload\n"
    again = f'systemctl --quiet enable {service}\n[ "$1" != configure ] || systemctl restart {service}\n'
    stop = f'#!/bin/sh -e\n{alive}\n[ "$1" != remove ] || systemctl --quiet disable --now {service}\n'
    gone = f"#!/bin/sh -e\n{alive}\nsystemctl daemon-reload\n"
    return replace(
        package,
        files={**package.files, f"lib/systemd/system/{service}.service": unit},
        scripts={"postinst": start + again, "prerm": stop, "postrm": gone, **package.scripts},
    )
