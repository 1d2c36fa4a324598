from multiprocessing import get_context
from pathlib import Path

from gpushare.installer.install import install
from gpushare.isolation.layout import PRELOAD_TEXT
from gpushare.isolation.versions import current_version, installed_versions
from tests.support.builders.library_package import package


def again_and_again(package: Path, folder: Path, times: int) -> None:
    for _ in range(times):
        install(package, folder)


def test_concurrent_installs_never_expose_an_incomplete_version(
    tmp_path: Path,
) -> None:
    one, two = package(tmp_path / "one", "one"), package(tmp_path / "two", "two")
    folder = tmp_path / "node" / "gpushare"
    install(one, folder)
    context = get_context("spawn")
    writers = [context.Process(target=again_and_again, args=(each, folder, 15)) for each in (one, two, one)]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        version = current_version(folder)
        assert version is not None
        seen.add((folder / version / "libgpushare.so").read_text())
        assert (folder / version / "ld.so.preload").read_text() == PRELOAD_TEXT
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert seen <= {"one", "two"}
    assert len(installed_versions(folder)) == 2
    assert not list(folder.glob(".*"))
