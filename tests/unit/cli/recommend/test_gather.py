"""The queries of ``recommend --prometheus``."""

import pytest

from gpushare.cli.recommend.gather import query

BY = "max by (namespace, pod, container, node, card, uuid)"


@pytest.mark.parametrize("name", ["memory_counted_peak_bytes", "memory_used_bytes"])
def test_peak_and_usage_are_those_of_the_window(name: str) -> None:
    metric = f"gpushare_container_{name}"
    assert query(metric, '{namespace="ml"}', 60) == f'{BY} (max_over_time({metric}{{namespace="ml"}}[60s]))'


@pytest.mark.parametrize("name", ["memory_allocated_bytes", "memory_limit_bytes", "memory_refusals_total"])
def test_a_pod_of_the_same_name_with_another_request_changes_no_suggestion(name: str) -> None:
    """Units are those of now, so the memory and the refusals that belong to them must be too."""
    metric = f"gpushare_container_{name}"
    assert query(metric, "", 60) == f"{BY} (last_over_time({metric}[5m]))"
