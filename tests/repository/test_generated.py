"""The committed messages match the generator."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = Path("gpushare/adapters/kubelet/api")


def test_committed_files_match_the_generator(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="the generator is not installed")
    protos = sorted(str(path.relative_to(ROOT)) for path in (ROOT / FOLDER).glob("*.proto"))
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs, *protos]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - our own
    made = {path.name: path.read_text() for path in (tmp_path / FOLDER).iterdir()}
    committed = {path.name: path.read_text() for path in (ROOT / FOLDER).glob("*_pb2*.py*")}
    assert committed == made, "run `make generate`"
