"""The expressions of the policies find what the agent finds."""

import re

from hypothesis import given
from hypothesis import strategies as st

from components.manifests.conflict_checks import without
from gpushare.model.conflicts import RULES, ConflictRule, Declared, conflicts_of

NAMES = (
    "etc",
    "ld.so.preload",
    ".gpushare",
    ".gpushare-library",
    "limit",
    "var",
    "run",
    "opt",
    "ldXso.preload",
)
PATHS = st.lists(st.sampled_from([*NAMES, "nvidia-container-devices", "", ".", "/"]), max_size=6).map(
    "/".join
)


def expression(rule: ConflictRule) -> re.Pattern[str]:
    """The regular expression in the CEL of a rule; that of Python agrees with RE2 on these."""
    found = re.search(r"matches\('(.+)'\)", without(rule))
    assert found
    return re.compile(found[1])


@given(PATHS, st.booleans())
def test_a_path_is_found_in_every_spelling_without_steps_up(path: str, absolute: bool) -> None:  # noqa: FBT001 - by hypothesis
    spelled = f"/{path}" if absolute else path
    by_agent = {each.rule.reason for each in conflicts_of(Declared(mounts=(spelled,)))}
    by_policy = {rule.reason for rule in RULES if rule.paths and expression(rule).search(spelled)}
    assert by_policy == by_agent
