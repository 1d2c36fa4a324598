"""Lines of work in the background wait until someone waits for the work."""

import asyncio

import pytest

from devkit.progress import Held, say, told_to


def test_a_line_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    say("building")
    assert capsys.readouterr().err == "building\n"


async def test_a_task_tells_the_listener_with_which_it_was_created(
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard: list[str] = []

    async def work() -> None:
        say("in the background")

    with told_to(heard.append):
        task = asyncio.ensure_future(work())
    say("in the foreground")
    await task
    assert heard == ["in the background"]
    assert capsys.readouterr().err == "in the foreground\n"


def test_held_lines_are_printed_while_the_work_is_awaited(capsys: pytest.CaptureFixture[str]) -> None:
    held = Held()
    held("first")
    held("second")
    assert capsys.readouterr().err == ""
    with held.awaited():
        held("third")
    held("fourth")
    assert capsys.readouterr().err == "second\nthird\n"
