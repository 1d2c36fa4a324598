"""The processes of a static pod in /proc, its starts, the last lines of its log, and answers."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ansible_collections.gpushare.nodes.plugins.module_utils.static_pods import (
    last_lines,
    problem_of,
    processes,
    starts,
)

NO_TLS = dict.fromkeys(["ca_file", "cert_file", "key_file", "server_name"])


def process(proc: Path, pid: int, words: list[str], start: int, state: str = "S") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_text("".join(f"{word}\0" for word in words))
    columns = [state, *["0"] * 18, str(start), "0"]
    (folder / "stat").write_text(f"{pid} (kube scheduler)) {' '.join(columns)}\n")


def test_a_process_is_identified_by_program_end_of_command_line_and_start(tmp_path: Path) -> None:
    process(tmp_path, 7, ["/usr/local/bin/kube-scheduler", "--v=2", "--config=a"], 300)
    process(tmp_path, 9, ["kube-scheduler"], 200)
    process(tmp_path, 11, ["grep", "kube-scheduler", "--config=a"], 100)
    assert processes("kube-scheduler", [], str(tmp_path)) == ["7@300", "9@200"]
    assert processes("kube-scheduler", ["--config=a"], str(tmp_path)) == ["7@300"]


def test_zombies_and_processes_that_exit_meanwhile_are_skipped(tmp_path: Path) -> None:
    process(tmp_path, 7, ["kube-scheduler"], 300, state="Z")
    (tmp_path / "8").mkdir()
    assert processes("kube-scheduler", [], str(tmp_path)) == []


def test_the_starts_of_a_pod_are_counted_by_the_numbers_of_its_logs(tmp_path: Path) -> None:
    for name in ("pod_1/9.log", "pod_1/10.log", "pod_2/0.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("2026-01-01T00:00:00.0Z stderr F started\n")
    # The kubelet makes the log of a start first.
    (tmp_path / "pod_2/1.log").touch()
    assert starts(f"{tmp_path}/*/*.log") == {f"{tmp_path}/pod_1": 11, f"{tmp_path}/pod_2": 1}
    assert starts(f"{tmp_path}/absent*") == {}


def test_the_newest_log_is_returned_without_the_columns_of_the_runtime(tmp_path: Path) -> None:
    for name, age in (("0.log", 10), ("1.log", 0)):
        lines = [f"2026-01-01T00:00:00.0Z stderr F {name} line {number}" for number in range(20)]
        (tmp_path / name).write_text("\n".join(lines))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    lines = last_lines(f"{tmp_path}/*.log")
    assert (len(lines), lines[-1]) == (8, "1.log line 19")
    (tmp_path / "2.log").touch()
    assert last_lines(f"{tmp_path}/*.log") == lines
    assert last_lines(f"{tmp_path}/absent*") == []


class Answers(BaseHTTPRequestHandler):
    """200 for /version, 404 for others."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/version" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_answer_other_than_200_or_none_is_the_problem(url: str) -> None:
    assert problem_of(f"{url}/version", NO_TLS, 5) == ""
    assert problem_of(f"{url}/other", NO_TLS, 5) == f"{url}/other: HTTP 404"
    assert problem_of("http://127.0.0.1:1/version", NO_TLS, 5).endswith(": Connection refused")


def test_certificates_that_do_not_exist_are_the_problem(url: str) -> None:
    secure = url.replace("http", "https")
    problem = problem_of(secure, {**NO_TLS, "ca_file": "/absent"}, 5)
    assert problem == f"{secure}: No such file or directory"
