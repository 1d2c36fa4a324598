from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cuda import CudaStub
from tests.support.isolation import Container, build, card

Make = Callable[..., Container]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("container")


@pytest.fixture(scope="session")
def library(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"), files)


@pytest.fixture
def make(files: Path, library: Path, tmp_path: Path) -> Make:
    def container(*, era: int = 580, total_mib: int = 16130, context_mib: int = 0) -> Container:
        stub = CudaStub(tmp_path / "stub", cards=[card(total_mib, context_mib)], era=era)
        return Container(files, library, stub)

    return container
