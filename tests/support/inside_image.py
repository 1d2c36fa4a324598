"""Inspects a container from the inside and prints the results as JSON; runs there with Python only."""

import hashlib
import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

PACKAGES = Path(sysconfig.get_path("purelib"))
FOLDERS = [Path(name) for name in ("/", "/app", "/app/.venv", "/etc", "/var", "/tmp", "/run", PACKAGES)]  # noqa: S108
TOPS = ("/app", "/etc", "/opt", "/usr", "/var")
SET_ID = 0o6000
LIBRARIES = (Path("/usr/local/lib/gpushare"), Path("/app/.venv/lib/gpushare"))
INSTALLED = "--showformat=${db:Status-Status} ${Package} ${Version}\n"
UNCHECKED = 1


def failed_imports(packages: Iterable[str]) -> dict[str, str]:
    failures: dict[str, str] = {}
    for package in packages:
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                failures[module.name] = repr(error)
    return failures


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def is_writable(folder: Path) -> bool:
    probe = folder / "probe"
    try:
        probe.touch()
    except OSError:
        return False
    probe.unlink()
    return True


def files(*tops: str) -> Iterator[Path]:
    return (Path(folder) / name for top in tops for folder, _, names in os.walk(top) for name in names)


def has_set_id_bit(path: Path) -> bool:
    return not path.is_symlink() and bool(path.stat().st_mode & SET_ID)


def is_compiled(path: Path) -> bool:
    """Whether its bytecode exists and is used without a check of the source."""
    compiled = Path(importlib.util.cache_from_source(str(path)))
    if not compiled.exists():
        return False
    with compiled.open("rb") as stream:
        return stream.read(5)[4] == UNCHECKED


def status(field: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{field}:"))


def run(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - commands of the test
    return done.returncode, done.stdout + done.stderr


def installed() -> list[list[str]]:
    """Names and versions of the packages of the distribution, as dpkg says."""
    _, text = run(["dpkg-query", "--show", INSTALLED])
    return sorted(line.split()[1:] for line in text.splitlines() if line.startswith("installed "))


def inspect(asked: dict[str, Any]) -> dict[str, Any]:
    modules = [path for path in files(str(PACKAGES)) if path.suffix == ".py"]
    return {
        "user": os.getuid(),
        "capabilities": int(status("CapEff"), 16) | int(status("CapBnd"), 16),
        "seccomp": status("Seccomp"),
        "present": [name for name in asked["absent"] if is_installed(name)],
        "failed_imports": failed_imports(asked["packages"]),
        "written": [str(folder) for folder in FOLDERS if is_writable(folder)],
        "setuid": [str(path) for path in files(*TOPS) if has_set_id_bit(path)],
        "modules": len(modules),
        "not_compiled": [str(path) for path in modules if not is_compiled(path)],
        "debian": installed(),
        "distributions": sorted([each.name, each.version] for each in distributions()),
        "libraries": {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for folder in LIBRARIES
            for path in folder.glob("*.so")
        },
        "commands": [run(command) for command in asked["commands"]],
    }


if __name__ == "__main__":
    json.dump(inspect(json.loads(sys.argv[1])), sys.stdout)
