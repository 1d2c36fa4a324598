"""The SBOM of an image: CycloneDX 1.5 from its contents. Pure.

What does not belong here: reading images (``release.contents``). Sources: cyclonedx.org/docs/1.5/json, and
the types ``deb``, ``pypi`` and ``generic`` of the purl specification. Scanners take the distribution from the
component ``operating-system``, and the source package of a Debian package from the qualifier ``upstream``.
"""

import json
from typing import Any, Final
from urllib.parse import quote

from gpushare import __version__
from release.contents import Contents, DebianPackage, PythonPackage

COVERS: Final = "packages of the distribution (dpkg), Python, packages of Python (pip), libraries of gpushare"
LACKS: Final = "what was linked into wheels, the compiler of the libraries, relations between components"


def document(service: str, digest: str, contents: Contents) -> str:
    """Return the SBOM of an image; equal images have equal ones."""
    base = {name: value for name, value in contents.labels.items() if ".base." in name}
    about = {"covers": COVERS, "lacks": LACKS, "platform": contents.platform}
    if contents.snapshot:
        about["snapshot"] = contents.snapshot.isoformat()
    properties = {**{f"gpushare:{name}": value for name, value in about.items()}, **base}
    return (
        json.dumps(
            {
                "bomFormat": "CycloneDX",
                "specVersion": "1.5",
                "version": 1,
                "metadata": {
                    "component": {
                        "type": "container",
                        "bom-ref": digest,
                        "name": service,
                        "version": digest,
                        "purl": f"pkg:oci/{service}@{quote(digest, safe='')}",
                    },
                    "properties": [{"name": name, "value": value} for name, value in properties.items()],
                },
                "components": components(contents),
            },
            indent=2,
        )
        + "\n"
    )


def components(contents: Contents) -> list[dict[str, Any]]:
    """Return the components: first the distribution, then what is installed, by kind and name."""
    name, version = contents.system.get("ID", ""), contents.system.get("VERSION_ID", "")
    system = {"type": "operating-system", "bom-ref": "os", "name": name, "version": version}
    return [
        *([system] if name else []),
        *(_debian(each, name, version) for each in contents.debian),
        *([_python(contents.python)] if contents.python else []),
        *(_distribution(each) for each in contents.distributions),
        *(_library(path, digest) for path, digest in contents.libraries.items()),
    ]


def _debian(package: DebianPackage, system: str, system_version: str) -> dict[str, Any]:
    source = package.source
    if package.source_version != package.version:
        source += f"@{package.source_version}"
    qualifiers = {
        "arch": package.architecture,
        "distro": f"{system}-{system_version}",
        **({"upstream": source} if source != package.name else {}),
    }
    words = "&".join(f"{name}={quote(value, safe='')}" for name, value in qualifiers.items())
    purl = f"pkg:deb/{system}/{quote(package.name, safe='')}@{quote(package.version, safe='')}?{words}"
    return _component("library", package.name, package.version, purl)


def _python(version: str) -> dict[str, Any]:
    component = _component("application", "python", version, f"pkg:generic/python@{version}")
    return {**component, "cpe": f"cpe:2.3:a:python:python:{version}:*:*:*:*:*:*:*"}


def _distribution(package: PythonPackage) -> dict[str, Any]:
    name = package.name.lower().replace("_", "-")
    purl = f"pkg:pypi/{name}@{quote(package.version, safe='')}"
    component = _component("library", package.name, package.version, purl)
    return {**component, **({"licenses": [{"expression": package.licence}]} if package.licence else {})}


def _library(path: str, digest: str) -> dict[str, Any]:
    name = path.rpartition("/")[2]
    component = _component("library", name, __version__, f"pkg:generic/gpushare/{name}@{__version__}")
    return {
        **component,
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "evidence": {"occurrences": [{"location": path}]},
    }


def _component(kind: str, name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
