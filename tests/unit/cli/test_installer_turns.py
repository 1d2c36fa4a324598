"""Installer pods that wait for other control planes, with a fake API server."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from gpushare.adapters.kube.access import ApiAccess
from gpushare.cli import installer_turns
from gpushare.cli.installer_turns import in_turn
from gpushare.errors import ConfigError

PODS = "/api/v1/namespaces/kube-system/pods"
EVENTS = "/api/v1/namespaces/kube-system/events"
REFUSED = "changed: /a\nError: the manifest is as it was: v1beta3 is refused\n"


def pod(name: str, phase: str = "Running", terminated: dict[str, Any] | None = None) -> dict[str, Any]:
    """A pod of the Job on the node ``cp-<name>`` whose container has been started again."""
    last = {"lastState": {"terminated": terminated}} if terminated else {}
    owner = {"kind": "Job", "name": "gpushare-installer", "uid": "u"}
    return {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"nodeName": f"cp-{name}"},
        "status": {"phase": phase, "containerStatuses": [{"state": {"running": {}}, **last}]},
    }


@dataclass
class Api:
    """``answers`` are lists of pods, one for each question and the last for all others; None is a 503."""

    answers: list[list[dict[str, Any]] | None]
    asked: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def pods(self) -> list[dict[str, Any]] | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    api = Api([[]])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            api.asked.append(self.path)
            pods = api.pods()
            self._answer(503 if pods is None else 200, {"items": pods or []})

        def do_POST(self) -> None:
            assert self.path == EVENTS
            api.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer(201, {})

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    async def no_authorization() -> None:
        return None

    with HTTPServer(("127.0.0.1", 0), Handler) as server:

        async def access() -> ApiAccess:
            return ApiAccess(host=f"http://127.0.0.1:{server.server_port}", authorization=no_authorization)

        monkeypatch.setattr(installer_turns, "load_access", access)
        monkeypatch.setenv("POD_NAME", "b")
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield api
        server.shutdown()
        thread.join()


def test_a_run_by_hand_does_not_wait(api: Api) -> None:
    with in_turn(None):
        assert api.asked == []


def test_a_pod_edits_when_the_ones_before_it_have_succeeded(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [pod("b"), pod("a")]
    api.answers = [[pod("b")], both, both, [pod("a", "Succeeded"), pod("b")]]
    with in_turn(2, poll_s=0.01):
        assert len(api.asked) == 4
    assert capsys.readouterr().err.splitlines() == [
        "waiting: 2 control planes are expected, and pods of the Job are on cp-b only",
        "waiting: control plane cp-a comes first",
    ]
    assert api.asked[0].startswith(f"{PODS}?labelSelector=component%3Dgpushare-installer")
    assert api.events == []


def test_an_unavailable_api_server_is_waited_for(api: Api) -> None:
    api.answers = [None, None, [pod("b")]]
    with in_turn(1, poll_s=0.01):
        assert len(api.asked) == 3


def test_the_failure_of_another_control_plane_is_an_error_and_an_event_of_the_job(api: Api) -> None:
    api.answers = [[pod("a", terminated={"exitCode": 1, "message": REFUSED}), pod("b")]]
    edited = False
    with pytest.raises(ConfigError) as reported, in_turn(2, poll_s=0.01):
        edited = True
    assert not edited
    assert str(reported.value) == (
        "nothing was changed: control plane cp-a failed: the manifest is as it was: v1beta3 is refused"
    )
    (event,) = api.events
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Job",
        "namespace": "kube-system",
        "name": "gpushare-installer",
        "uid": "u",
    }
    assert event["message"] == f"cp-b: {reported.value}"


def test_the_failure_of_the_edit_is_an_event_of_the_job(api: Api) -> None:
    api.answers = [[pod("b")]]
    with pytest.raises(ConfigError, match="it is refused"), in_turn(1, poll_s=0.01):
        raise ConfigError("it is refused")
    assert [event["message"] for event in api.events] == ["cp-b: it is refused"]


def test_a_pod_that_was_killed_edits_again(api: Api) -> None:
    api.answers = [[pod("b", terminated={"exitCode": 137})]]
    with in_turn(1, poll_s=0.01):
        assert len(api.asked) == 1


def test_a_timeout_names_the_control_plane_that_comes_first(api: Api) -> None:
    api.answers = [[pod("a"), pod("b")]]
    with (
        pytest.raises(
            ConfigError,
            match="timed out waiting for the other control planes: control plane cp-a comes first",
        ),
        in_turn(2, poll_s=0.01, timeout_s=0.02),
    ):
        pass
