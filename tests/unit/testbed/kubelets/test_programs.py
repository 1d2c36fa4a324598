"""The command line of kube-proxy, and when its rules are written."""

from pathlib import Path

import pytest

from testbed.kubelets import programs

ARGV = programs.kube_proxy_argv(Path("/bin/kube-proxy"), "gpu-a", "198.19.7.2", Path("/bed/kubeconfig"))


def test_kube_proxy_leaves_the_settings_that_all_nodes_share_alone() -> None:
    settings = [flag for flag in ARGV if flag.startswith(("--conntrack", "--oom"))]
    assert settings
    assert all(flag.endswith("=0") for flag in settings)


def test_kube_proxy_serves_its_metrics_on_the_node_only() -> None:
    assert "--metrics-bind-address=198.19.7.2:10249" in ARGV


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ('kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.79e+09', True),
        ("kubeproxy_sync_proxy_rules_last_timestamp_seconds 1.79e+09", True),
        ('kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 0', False),
        ("# HELP kubeproxy_sync_proxy_rules_last_timestamp_seconds 1", False),
        ("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds 1.79e+09", False),
    ],
)
def test_rules_are_there_once_a_round_has_ended(line: str, *, written: bool) -> None:
    assert bool(programs._RULES_WRITTEN.search(f"# TYPE x gauge\n{line}\n")) is written
