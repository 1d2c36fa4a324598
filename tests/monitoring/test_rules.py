"""Results of the rules, as computed by Prometheus."""

from pathlib import Path

import pytest

from tests.support.promtool import Asked, check

pytestmark = pytest.mark.needs("promtool")

UP = 'gpushare_exporter_source_up{job="e",instance="n",source="pods"}'


def on_card(card: int, node: str = "n") -> str:
    return f'job="e",instance="{node}",node="{node}",card="{card}",uuid="GPU-{node}{card}"'


def share(pod: str, card: int = 0, node: str = "n") -> str:
    return f'{on_card(card, node)},namespace="ml",pod="{pod}",container="c"'


TWO_PODS = {
    f"gpushare_card_memory_bytes{{{on_card(0)}}}": "1000x9",
    f"gpushare_card_memory_bytes{{{on_card(1)}}}": "1000x9",
    f"gpushare_card_utilization_ratio{{{on_card(0)}}}": "0.5x9",
    f"gpushare_card_utilization_ratio{{{on_card(1)}}}": "0x9",
    f"gpushare_container_memory_allocated_bytes{{{share('busy')}}}": "400x9",
    f"gpushare_container_memory_allocated_bytes{{{share('idle')}}}": "200x9",
    f"gpushare_container_memory_used_bytes{{{share('busy')}}}": "300x9",
    f"gpushare_container_memory_used_bytes{{{share('idle')}}}": "0x9",
    f"gpushare_container_utilization_ratio{{{share('busy')}}}": "0.4x9",
    f"gpushare_container_utilization_ratio{{{share('idle')}}}": "0x9",
    UP: "1x9",
}
"""Two pods on the first of a node's two GPUs."""
OUTSIDE_PODS = f'{on_card(0)},namespace="",pod="",container=""'


def made(record: str, gives: dict[str, float]) -> Asked:
    return Asked(record, 5, {f"{record}{{{labels}}}": value for labels, value in gives.items()})


def by_pod(record: str, busy: float, idle: float) -> Asked:
    pods = {
        f'node="n",namespace="ml",pod="{name}"': value for name, value in (("busy", busy), ("idle", idle))
    }
    return made(f"pod:gpushare_{record}", pods)


def test_what_namespaces_have_and_use(tmp_path: Path) -> None:
    of_another = share("other").replace('namespace="ml"', 'namespace="web"')
    series = {
        **TWO_PODS,
        f"gpushare_container_memory_allocated_bytes{{{share('idle')}}}": "100x9",
        f"gpushare_container_memory_allocated_bytes{{{of_another}}}": "125x9",
        f"gpushare_container_memory_used_bytes{{{of_another}}}": "50x9",
        f"gpushare_container_memory_used_bytes{{{OUTSIDE_PODS}}}": "70x9",
    }

    def by_namespace(record: str, **gives: float) -> Asked:
        return made(record, {f'namespace="{name}"': value for name, value in gives.items()})

    asked = [
        by_namespace("namespace:gpushare_memory_allocated_bytes:sum", ml=500, web=125),
        by_namespace("namespace:gpushare_memory_used_bytes:sum", ml=300, web=50),
        by_namespace("namespace:gpushare_gpus_allocated:sum", ml=0.5, web=0.125),
        by_namespace("namespace:gpushare_utilization:sum", ml=0.4),
    ]
    check(tmp_path, series, asked)


def test_allocated_used_and_unused_memory_of_pods(tmp_path: Path) -> None:
    asked = [
        by_pod("memory_allocated_bytes:sum", 400, 200),
        by_pod("memory_used_bytes:sum", 300, 0),
        by_pod("memory_wasted_bytes:difference", 100, 200),
        by_pod("memory_utilization:ratio", 0.75, 0),
        by_pod("utilization:sum", 0.4, 0),
    ]
    check(tmp_path, TWO_PODS, asked)


def test_processes_outside_pods_are_not_usage_of_pods(tmp_path: Path) -> None:
    series = {
        f"gpushare_container_memory_used_bytes{{{OUTSIDE_PODS}}}": "77x9",
        f"gpushare_container_utilization_ratio{{{OUTSIDE_PODS}}}": "1x9",
    }
    asked = [
        by_pod("memory_used_bytes:sum", 300, 0),
        made("cluster:gpushare_memory_used_bytes:sum", {"": 300}),
    ]
    check(tmp_path, {**TWO_PODS, **series}, asked)


def test_nodes_and_the_cluster_are_sums(tmp_path: Path) -> None:
    other = {f"gpushare_card_memory_bytes{{{on_card(0, 'm')}}}": "2000x9"}
    asked = [
        made("node:gpushare_memory_bytes:sum", {'node="n"': 2000, 'node="m"': 2000}),
        made("node:gpushare_memory_allocated_bytes:sum", {'node="n"': 600, 'node="m"': 0}),
        made("node:gpushare_memory_used_bytes:sum", {'node="n"': 300, 'node="m"': 0}),
        made("node:gpushare_memory_wasted_bytes:difference", {'node="n"': 300, 'node="m"': 0}),
        made("node:gpushare_memory_utilization:ratio", {'node="n"': 0.5}),
        made("node:gpushare_memory_allocated:ratio", {'node="n"': 0.3, 'node="m"': 0}),
        made("node:gpushare_utilization:avg", {'node="n"': 0.25}),
        made("cluster:gpushare_memory_bytes:sum", {"": 4000}),
        made("cluster:gpushare_memory_allocated_bytes:sum", {"": 600}),
        made("cluster:gpushare_memory_used_bytes:sum", {"": 300}),
        made("cluster:gpushare_memory_wasted_bytes:difference", {"": 300}),
        made("cluster:gpushare_memory_utilization:ratio", {"": 0.5}),
        made("cluster:gpushare_memory_allocated:ratio", {"": 0.15}),
        made("cluster:gpushare_utilization:avg", {"": 0.25}),
    ]
    check(tmp_path, {**TWO_PODS, **other}, asked)


def test_a_gpu_without_allocations_is_0_only_if_allocations_are_known(tmp_path: Path) -> None:
    cards = {
        'node="n",card="0",uuid="GPU-n0"': 600.0,
        'node="n",card="1",uuid="GPU-n1"': 0.0,
    }
    check(tmp_path, TWO_PODS, [made("card:gpushare_memory_allocated_bytes:sum", cards)])
    known = dict(list(cards.items())[:1])
    blind = {**TWO_PODS, UP: "0x9"}
    check(tmp_path, blind, [made("card:gpushare_memory_allocated_bytes:sum", known)])


def test_without_processes_usage_is_unknown_and_not_0(tmp_path: Path) -> None:
    series = {name: values for name, values in TWO_PODS.items() if "container_memory_used" not in name}
    asked = [
        made("card:gpushare_memory_used_bytes:sum", {'node="n",card="1",uuid="GPU-n1"': 0}),
        made("pod:gpushare_memory_wasted_bytes:difference", {}),
    ]
    check(tmp_path, series, asked)


def test_replicas_of_the_extender_count_once(tmp_path: Path) -> None:
    free = {("n", 0): 6, ("n", 1): 4, ("m", 0): 6}
    series = {
        f'gpushare_card_{what}{{instance="{replica}",node="{node}",card="{card}"}}': f"{value}x9"
        for replica in "ab"
        for (node, card), units in free.items()
        for what, value in (("units", 14), ("free_units", units))
    }
    asked = [
        made("node:gpushare_units:sum", {'node="n"': 28, 'node="m"': 14}),
        made("node:gpushare_free_units:sum", {'node="n"': 10, 'node="m"': 6}),
        made("cluster:gpushare_units:sum", {"": 42}),
        made("cluster:gpushare_free_units:sum", {"": 16}),
        made("cluster:gpushare_free_units:max", {"": 6}),
        Asked("cluster:gpushare_fragmentation:ratio * 14", 5, {"{}": 8}),
    ]
    check(tmp_path, series, asked)


def test_an_overcommitted_gpu_takes_no_free_units_from_others(tmp_path: Path) -> None:
    free = {0: -4, 1: 6}
    series = {
        f'gpushare_card_free_units{{node="n",card="{card}"}}': f"{units}x9" for card, units in free.items()
    }
    asked = [
        made("node:gpushare_free_units:sum", {'node="n"': 6}),
        made("cluster:gpushare_free_units:sum", {"": 6}),
    ]
    check(tmp_path, series, asked)


def test_nodes_of_the_same_name_in_two_clusters_are_separate(tmp_path: Path) -> None:
    series: dict[str, str] = {}
    for cluster, free in (("a", 3), ("b", 5)):
        place = f'cluster="{cluster}",node="n",card="0"'
        series |= {
            f"gpushare_card_units{{{place}}}": "14x9",
            f"gpushare_card_free_units{{{place}}}": f"{free}x9",
            f'gpushare_card_memory_bytes{{{place},uuid="GPU-{cluster}",instance="n"}}': "1000x9",
        }
    asked = [
        made("node:gpushare_free_units:sum", {'cluster="a",node="n"': 3, 'cluster="b",node="n"': 5}),
        made("cluster:gpushare_units:sum", {'cluster="a"': 14, 'cluster="b"': 14}),
        made("cluster:gpushare_memory_bytes:sum", {'cluster="a"': 1000, 'cluster="b"': 1000}),
        made("cluster:gpushare_fragmentation:ratio", {'cluster="a"': 0, 'cluster="b"': 0}),
    ]
    check(tmp_path, series, asked)
