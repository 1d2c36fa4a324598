"""Stacks of this project under the real Pulumi engine, on a testbed.

What belongs here: running the engine with separate state, home and configuration. What does not:
the deployed objects (``components``), and the Pulumi SDK.

    stack = await PulumiStack.create(bed, from_file(Path("Pulumi.example.yaml")))
    outcome = await stack.up()
"""

from testbed.pulumi.outcome import PulumiOutcome, PulumiStep
from testbed.pulumi.programs import TOOLS, install
from testbed.pulumi.stack import PulumiError, PulumiStack
from testbed.pulumi.tokens import old_tokens

__all__ = ["TOOLS", "PulumiError", "PulumiOutcome", "PulumiStack", "PulumiStep", "install", "old_tokens"]
