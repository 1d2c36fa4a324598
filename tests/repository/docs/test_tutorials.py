"""The tutorial on memory limits has the commands that the tests and the demo run."""

from pathlib import Path

from testbed.stories import isolation
from tests.support.pages import Command, steps

PAGE = Path(__file__).parents[3] / "docs" / "tutorials" / "limit-gpu-memory.md"


def test_the_commands_of_the_tutorial_on_limits_are_those_of_its_scenario() -> None:
    story = isolation("registry.example.com/samples")
    shown = [step.line for step in steps(PAGE.read_text()) if isinstance(step, Command)]
    applied = ["kubectl apply -f examples/app-3g.yaml", "kubectl apply -f examples/app-6g.yaml"]
    assert shown[:2] == applied
    assert set(shown[2:]) <= {*story.commands, *story.inside}
