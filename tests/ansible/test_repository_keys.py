"""The role packages installs the key of a repository only if it is the expected one."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.ansible.cores import CORES, Ended, part_of, play, printed
from tools.role_docs import ROLES

FILES = ROLES / "packages/files"
DEBIAN_13 = "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
NOTHING = {"file": "", "url": "", "fingerprint": "", "sha256": ""}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """Serves the shipped keys."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(FILES)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    stop(server)
    thread.join()


def stop(server: ThreadingHTTPServer) -> None:
    server.shutdown()
    server.server_close()


def install(folder: Path, core: str = "2.19", **key: str) -> Ended:
    """Install a key as ``key.asc`` in ``folder``."""
    settings = {
        "packages_repository_settings": "nvidia_driver_repo",
        "packages_repository_url": "https://mirror.example.com/debian13",
        "packages_repository_key": {**NOTHING, **key} if key else {},
        "__packages_key_file": f"{folder}/key.asc",
    }
    return play(core, folder, [part_of("packages", "key")], **settings)


@pytest.mark.parametrize("core", CORES)
def test_a_shipped_key_is_copied_as_it_is(core: str, tmp_path: Path) -> None:
    done = install(tmp_path, core, file="8793F200.pub", fingerprint=DEBIAN_13)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "key.asc").read_text() == (FILES / "8793F200.pub").read_text()
    assert "changed=0" in install(tmp_path, core, file="8793F200.pub", fingerprint=DEBIAN_13).stdout


def test_a_repository_without_a_key_is_refused_with_the_settings_to_give(tmp_path: Path) -> None:
    refused = printed(install(tmp_path))
    assert "nothing says which key signs its packages" in refused
    assert "set nvidia_driver_repo_key to a file on the controller" in refused


def test_a_download_that_nothing_identifies_is_refused(tmp_path: Path) -> None:
    refused = printed(install(tmp_path, url="https://mirror.example.com/key.asc"))
    assert "set nvidia_driver_repo_key_fingerprint" in refused


@pytest.mark.parametrize("core", CORES)
def test_a_key_is_downloaded_once(core: str, server: ThreadingHTTPServer, tmp_path: Path) -> None:
    key = {
        "url": f"http://127.0.0.1:{server.server_port}/8793F200.pub",
        "fingerprint": DEBIAN_13,
    }
    done = install(tmp_path, core, **key)
    assert done.returncode == 0, done.stdout
    server.shutdown()
    server.socket.close()
    again = install(tmp_path, core, **key)
    assert "changed=0" in again.stdout
    assert again.returncode == 0, again.stdout


def test_another_key_is_refused_and_not_installed(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    refused = install(
        tmp_path, url=f"http://127.0.0.1:{server.server_port}/3bf863cc.pub", fingerprint=DEBIAN_13
    )
    assert "its fingerprint is EB693B3035CD5710E231E123A4B469963BF863CC instead of" in printed(refused)
    assert not (tmp_path / "key.asc").exists()


def test_a_key_may_be_on_the_host_and_needs_no_fingerprint_there(tmp_path: Path) -> None:
    (tmp_path / "own.asc").write_text((FILES / "gpgkey").read_text())
    done = install(tmp_path, url=f"file://{tmp_path}/own.asc")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "key.asc").read_text() == (FILES / "gpgkey").read_text()
    missing = printed(install(tmp_path, url=f"file://{tmp_path}/none.asc"))
    assert "it is no armored OpenPGP public key" in missing
