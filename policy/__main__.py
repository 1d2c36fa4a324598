"""The CrossGuard pack: ``pulumi preview --policy-pack policy``. The rules are in ``rules.py``.

Pulumi runs this folder as a program, so its parent is not on ``sys.path``.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)

from policy.rules import RULES, Rule


def policy(name: str, rule: Rule) -> ResourceValidationPolicy:
    """Return a rule as a policy for Kubernetes objects."""

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if args.resource_type.startswith("kubernetes:"):
            for text in rule(args.props):
                report(f"{args.name}: {text}")

    return ResourceValidationPolicy(name=name, description=rule.__doc__ or name, validate=validate)


PolicyPack(
    name="gpushare",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[policy(name, rule) for name, rule in RULES.items()],
)
