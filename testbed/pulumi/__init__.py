"""Stacks of this project under the real Pulumi engine, on a testbed.

What belongs here: running the engine with separate state, home and configuration. What does not:
the deployed objects (``components``), and the Pulumi SDK.

    stack = await Stack.create(bed, from_file(Path("Pulumi.example.yaml")))
    outcome = await stack.up()
"""

from testbed.pulumi.outcome import Outcome, Step
from testbed.pulumi.programs import TOOLS, install
from testbed.pulumi.stack import PulumiError, Stack
from testbed.pulumi.tokens import old_tokens

__all__ = ["TOOLS", "Outcome", "PulumiError", "Stack", "Step", "install", "old_tokens"]
