"""Passes the PyPI settings of this machine to a build as secrets, so that no image contains them.

What belongs here: the settings of pip, uv and proxies that are passed. What does not: the mounts, which
are in the Containerfile.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

_PASSED: Final = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT|RETRIES)"
    r"|UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|INDEX_[A-Z0-9_]+_(USERNAME|PASSWORD)"
    r"|INDEX_STRATEGY|INSECURE_HOST|HTTP_TIMEOUT)"
    r"|(http|https|all|no)_proxy",
    re.IGNORECASE,
)
_INDEXES: Final = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
"""Names of the same setting in uv and pip."""
_CERTIFICATES: Final = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
_SYSTEM_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
_INSIDE: Final = "/run/secrets"


def secrets(env: Mapping[str, str], folder: Path, root: Path = Path("/")) -> dict[str, Path]:
    """Return secret ID → file; write the secret ``environment`` into ``folder``."""
    home = Path(env.get("HOME", "/root"))
    found = {
        "certificates": _first(Path(env[name]) for name in _CERTIFICATES if env.get(name))
        or _first([root / _SYSTEM_CERTIFICATES.lstrip("/")]),
        "pip.conf": _config(
            env.get("PIP_CONFIG_FILE"), [home / ".config/pip/pip.conf", root / "etc/pip.conf"]
        ),
        "uv.toml": _config(env.get("UV_CONFIG_FILE"), [home / ".config/uv/uv.toml", root / "etc/uv/uv.toml"]),
    }
    files = {name: path for name, path in found.items() if path}
    script = folder / "environment"
    script.touch(mode=0o600)
    script.write_text(environment(env, files))
    return {**files, script.name: script}


def environment(env: Mapping[str, str], files: Iterable[str]) -> str:
    """Return the settings as a shell script; ``files`` are the IDs of the other secrets."""
    passed = {name: value for name, value in env.items() if _PASSED.fullmatch(name) and value}
    if index := next((env[name] for name in _INDEXES if env.get(name)), None):
        passed = {"UV_DEFAULT_INDEX": index, "PIP_INDEX_URL": index} | passed
    inside = {
        "certificates": ("SSL_CERT_FILE", "PIP_CERT"),
        "pip.conf": ("PIP_CONFIG_FILE",),
        "uv.toml": ("UV_CONFIG_FILE",),
    }
    for file in files:
        passed |= dict.fromkeys(inside[file], f"{_INSIDE}/{file}")
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(passed.items()))


def _config(named: str | None, usual: Iterable[Path]) -> Path | None:
    return _first([Path(named)] if named else usual)


def _first(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)
