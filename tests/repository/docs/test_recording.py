"""The recorded terminal of the README comes from the demo, and its picture from the recording."""

import pytest

from devkit.errors import DevkitError
from docs import terminal
from tools.recording import SHOWN, excerpt

OUTPUT = """\
# A pod of 24 GiB

$ kubectl get pods
NAME

$ kubectl inspect cgpu
4/14


8/15

# on node a
$ kubectl gpushare limits
4301 MiB
The demo has ended; no process is left running.
"""


def test_the_recording_has_the_chosen_commands_with_what_they_printed() -> None:
    assert excerpt(OUTPUT, ["kubectl inspect cgpu", "kubectl gpushare limits"]) == (
        "$ kubectl inspect cgpu\n4/14\n\n8/15\n\n$ kubectl gpushare limits\n4301 MiB\n"
    )


def test_a_command_that_the_demo_does_not_run_is_an_error() -> None:
    with pytest.raises(DevkitError, match="does not run: kubectl top"):
        excerpt(OUTPUT, ["kubectl top"])


def test_the_committed_recording_has_the_commands_of_the_demo() -> None:
    lines = terminal.RECORDING.read_text().splitlines()
    assert [line[2:] for line in lines if line.startswith("$ ")] == list(SHOWN)


def test_the_committed_picture_is_that_of_the_recording() -> None:
    assert terminal.PICTURE.read_text() == terminal.picture(terminal.RECORDING.read_text())


def test_the_picture_loads_nothing_from_other_sites() -> None:
    urls = [line for line in terminal.PICTURE.read_text().splitlines() if "url(" in line and "http" in line]
    assert urls == []
