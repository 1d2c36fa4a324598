from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cuda import CudaStub
from tests.support.fixtures.isolation import Container, build, card, share

Make = Callable[..., Container]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("container")


@pytest.fixture(scope="session")
def library(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"), files)


@pytest.fixture
def make_two(
    files: Path, library: Path, other: tuple[Path, Path], tmp_path: Path
) -> tuple[Container, Container]:
    """Two containers on one card, with launch control."""
    stub = CudaStub(tmp_path / "stub", cards=[card()])
    return (
        Container(files, library, stub).with_launches(),
        Container(*other, stub).with_launches(),
    )


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files and library of a second container."""
    folder = tmp_path_factory.mktemp("container")
    return folder, build(tmp_path_factory.mktemp("library"), folder)


@pytest.fixture
def launcher(make: Make) -> Container:
    """A container with launch control."""
    return make().with_launches()


@pytest.fixture
def make(files: Path, library: Path, tmp_path: Path) -> Make:
    """Makes a container with 4 of 15 units of its card, and the size of a context as the estimate."""

    def container(*, era: int = 580, total_mib: int = 16130, context_mib: int = 0) -> Container:
        stub = CudaStub(tmp_path / "stub", cards=[card(total_mib, context_mib)], era=era)
        made = Container(files, library, stub)
        made.limit(share(4, 15, context_mib=context_mib))
        return made

    return container


@pytest.fixture
def container(make: Make) -> Container:
    """A container with 4 of 15 units of the card: 4301 MiB."""
    return make()
