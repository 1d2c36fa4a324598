"""The role scheduler_extender chooses the URL at which its host reaches the extender."""

import threading
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.ansible.cores import CORES, part_of, play, printed
from tests.ansible.test_static_pods import Answers

DEAD = "http://127.0.0.1:1/gpushare-scheduler"
SHOW = "calls {{ __scheduler_extender_url }} of {{ __scheduler_extender_urls.values() | join(' ') }}"


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/gpushare-scheduler"
        server.shutdown()
        thread.join()


def choose(folder: Path, core: str, **variables: Any) -> str:
    """What a run prints for a second scheduler, whose manifest is not edited."""
    settings = {"mode": "config_file", "kubernetes_version": "1.36", "client_secret": "", **variables}
    tasks = [
        part_of("scheduler_extender", "preflight", public=True),
        {"ansible.builtin.debug": {"msg": SHOW}},
    ]
    named = {f"scheduler_extender_{name}": value for name, value in settings.items()}
    return printed(play(core, folder, tasks, **named))


@pytest.mark.parametrize("core", CORES)
def test_the_first_url_that_answers_is_chosen(core: str, tmp_path: Path, url: str) -> None:
    text = choose(tmp_path, core, urls=[DEAD, f"{url}/"])
    assert f"calls {url}/" in text
    assert f"{url}/: answers; http://127.0.0.1:1/version: Connection refused" in text


@pytest.mark.parametrize("core", CORES)
def test_without_an_answer_nothing_is_changed(core: str, tmp_path: Path) -> None:
    text = choose(tmp_path, core, urls=[DEAD])
    assert "no extender answers at any of scheduler_extender_urls (http://127.0.0.1:1/version:" in text
    assert "calls" not in text


@pytest.mark.parametrize("probe", ["after", "never"])
def test_the_first_url_is_that_of_an_extender_that_starts_later(probe: str, tmp_path: Path) -> None:
    assert f"calls {DEAD}" in choose(tmp_path, "2.19", urls=[DEAD], probe=probe)


@pytest.mark.parametrize(
    ("address", "tls", "loopback", "own"),
    [
        ("10.0.0.1", {}, "http://127.0.0.1", "http://10.0.0.1"),
        ("fd00::1", {"ca_file": "/etc/kubernetes/gpushare/ca.crt"}, "https://127.0.0.1", "https://[fd00::1]"),
    ],
)
def test_the_node_port_is_asked_on_loopback_and_on_the_address(
    address: str, tls: dict[str, str], loopback: str, own: str, tmp_path: Path
) -> None:
    text = choose(tmp_path, "2.19", node_address=address, tls=tls, probe="never")
    path = ":32766/gpushare-scheduler"
    assert f"of {loopback}{path} {own}{path}" in text
