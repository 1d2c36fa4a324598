"""CEL for the rules about what containers declare (``gpushare.model.conflicts``).

What belongs here: one rule as an expression about a container ``c``, and in words. What does not: the
policies that use them (``admission``).
"""

from collections.abc import Sequence
from typing import Final

from gpushare.contract import RESOURCE_MEM
from gpushare.model.conflicts import ConflictRule

HAS_UNITS: Final = f"'{RESOURCE_MEM}' in c.?resources.?limits.orValue({{}})"
"""That the container requests units."""
NO_STEP_UP: Final = "c.?volumeMounts.orValue([]).all(m, !m.mountPath.matches('(^|/)[.][.](/|$)'))"
"""That no path of a mount has ``..``: runtimes resolve it, and ``without`` does not."""
_SEPARATOR: Final = "/+([.]/+)*"
"""What runtimes take for one slash."""


def without(rule: ConflictRule) -> str:
    """That the container has no such conflict."""
    if rule.paths:
        return f"c.?volumeMounts.orValue([]).all(m, !m.mountPath.matches('{_on_or_below(rule.paths)}'))"
    value = f" || !e.?value.orValue('').contains('{rule.in_value}')" if rule.in_value else ""
    return f"c.?env.orValue([]).all(e, !(e.name in {list(rule.variables)}){value})"


def without_beside_units(rule: ConflictRule) -> str:
    """That the container has no such conflict, if it requests units."""
    return f"!({HAS_UNITS}) || {without(rule)}"


def caution(rule: ConflictRule) -> str:
    """What a container has, its effect, and the remedy."""
    return f"it has {rule.declaration}, which {rule.effect}: {rule.remedy}"


def _on_or_below(paths: Sequence[str]) -> str:
    """A regular expression for these paths and all below, as runtimes resolve them but for ``..``."""
    names = [path.strip("/").replace(".", "[.]").split("/") for path in paths]
    return f"^/*([.]/+)*({'|'.join(map(_SEPARATOR.join, names))})(/.*)?$"
