"""A STAND-IN for the current Python language host, in front of the older one that can be built.

Why: the newest language host that the Go module proxy serves is 3.79, which ignores the options ``toolchain``
and ``typechecker`` of ``Pulumi.yaml``. This program does what 3.259 does with them, in its order and with its
arguments (github.com/pulumi/pulumi, ``sdk/python/cmd/pulumi-language-python/main.go`` and
``sdk/python/toolchain/uv.go``), and then becomes the older host, the project's environment first on PATH.

The engine starts it in the project's folder. It exits with the reason on stderr if the host would fail.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import yaml

HOST = "pulumi-language-python"
_OLDEST_UV = (0, 4, 26)


def program(folder: Path, host: Path) -> Path:
    """Write the program in front of ``host``, with the name by which the engine finds it."""
    folder.mkdir(parents=True)
    file = folder / HOST
    # This interpreter, because that of the project may not exist yet.
    file.write_text(f'#!/bin/sh\nPYTHONPATH={_root()} exec {sys.executable} -m {__name__} {host} "$@"\n')
    file.chmod(0o755)
    return file


def prepare(project: Path) -> None:
    """Check and synchronize the environment of a project, and check its types if configured."""
    options = yaml.safe_load((project / "Pulumi.yaml").read_text())["runtime"]["options"]
    venv = project / options["virtualenv"]
    if options.get("toolchain") == "uv":
        _check_uv()
        _run(["uv", "sync", "--inexact"], project, {"UV_PROJECT_ENVIRONMENT": str(venv)})
    os.environ["PATH"] = f"{venv / 'bin'}:{os.environ['PATH']}"
    os.environ["VIRTUAL_ENV"] = str(venv)
    if checker := options.get("typechecker"):
        exclude = ["--exclude", options["virtualenv"]] if checker == "mypy" else []
        _run([str(venv / "bin" / "python"), "-m", checker, *exclude, str(project)], project, {})


def _check_uv() -> None:
    if not shutil.which("uv"):
        _refuse("Could not find `uv` executable.\nInstall uv and make sure it is in your PATH.")
    version = _run(["uv", "--version"], Path.cwd(), {})
    found = re.match(r"uv (\d+)\.(\d+)\.(\d+)", version)
    if not found or tuple(map(int, found.groups())) < _OLDEST_UV:
        _refuse(f"uv version {version!r} is less than the minimum required version")


def _run(argv: list[str], cwd: Path, env: dict[str, str]) -> str:
    ended = subprocess.run(  # noqa: S603 - the commands of the host
        argv, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        _refuse(f"{' '.join(argv)} failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def _refuse(reason: str) -> NoReturn:
    sys.exit(f"error: {reason}")


def _root() -> Path:
    return Path(__file__).parents[3]


def main(host: str, *arguments: Any) -> None:
    """Prepare the project in the current folder, then become the language host."""
    prepare(Path.cwd())
    # The path of this module is not for the program.
    os.environ.pop("PYTHONPATH", None)
    os.execv(host, [host, *arguments])  # noqa: S606 - the real host


if __name__ == "__main__":
    main(*sys.argv[1:])
