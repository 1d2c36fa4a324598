"""The role scheduler_extender chooses the URL at which its host reaches the extender."""

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.cores import CORES, run
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


def play(folder: Path, core: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    """Choose the URL for a second scheduler, whose manifest is not edited."""
    settings = {
        "scheduler_extender_mode": "config_file",
        "scheduler_extender_kubernetes_version": "1.36",
        "scheduler_extender_client_secret": "",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        **{f"scheduler_extender_{name}": value for name, value in variables.items()},
    }
    role = {"name": "gpushare.nodes.scheduler_extender", "tasks_from": "preflight", "public": True}
    tasks = [{"ansible.builtin.include_role": role}, {"ansible.builtin.debug": {"msg": SHOW}}]
    file = folder / "play.yml"
    file.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    return run(
        core, "--connection=local", "--inventory=localhost,", f"--extra-vars={json.dumps(settings)}", file
    )


@pytest.mark.parametrize("core", CORES)
def test_the_first_url_that_answers_is_chosen(core: str, tmp_path: Path, url: str) -> None:
    done = play(tmp_path, core, urls=[DEAD, f"{url}/"])
    assert f"calls {url}/" in done.stdout, done.stdout
    text = " ".join(done.stdout.split())
    assert f"{url}/: answers; http://127.0.0.1:1/version: Connection refused" in text


@pytest.mark.parametrize("core", CORES)
def test_without_an_answer_nothing_is_changed(core: str, tmp_path: Path) -> None:
    done = play(tmp_path, core, urls=[DEAD])
    assert done.returncode != 0
    text = " ".join(done.stdout.split())
    assert (
        f"no extender answers at any of scheduler_extender_urls ({DEAD.rpartition('/')[0]}/version:" in text
    )


@pytest.mark.parametrize("probe", ["after", "never"])
def test_the_first_url_is_that_of_an_extender_that_starts_later(probe: str, tmp_path: Path) -> None:
    assert f"calls {DEAD}" in play(tmp_path, "2.19", urls=[DEAD], probe=probe).stdout


@pytest.mark.parametrize(
    ("address", "tls", "second"),
    [
        ("10.0.0.1", {}, "http://10.0.0.1:32766/gpushare-scheduler"),
        (
            "fd00::1",
            {"ca_file": "/etc/kubernetes/gpushare/ca.crt"},
            "https://[fd00::1]:32766/gpushare-scheduler",
        ),
    ],
)
def test_the_node_port_is_asked_on_loopback_and_on_the_address(
    address: str, tls: dict[str, str], second: str, tmp_path: Path
) -> None:
    variables = {"node_address": address, "tls": tls, "probe": "never"}
    done = play(tmp_path, "2.19", **variables)
    first = second.replace(address, "127.0.0.1").replace("[", "").replace("]", "")
    assert f"of {first} {second}" in " ".join(done.stdout.split()), done.stdout
