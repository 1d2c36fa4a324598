"""The metrics API serves the metrics of the five rules in the ACK documentation, combined in the same way."""

import pytest

from gpushare.metricsapi.queries import DEFINITIONS, ObjectKind, definition_of

ALL_KINDS = (ObjectKind.PODS, ObjectKind.NODES, ObjectKind.NAMESPACES)


@pytest.mark.parametrize(
    ("name", "combine", "kinds"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", "avg", (ObjectKind.NODES,)),
        ("DCGM_CUSTOM_PROCESS_SM_UTIL", "avg", ALL_KINDS),
        ("DCGM_FI_DEV_FB_USED", "sum", (ObjectKind.NODES,)),
        ("DCGM_CUSTOM_PROCESS_MEM_USED", "sum", ALL_KINDS),
        ("DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO", "sum", (ObjectKind.PODS, ObjectKind.NAMESPACES)),
    ],
)
def test_the_metrics_of_the_ack_documentation_are_served(
    name: str, combine: str, kinds: tuple[ObjectKind, ...]
) -> None:
    definition = DEFINITIONS[name]
    assert definition.combine == combine
    assert definition.kinds == kinds
    assert definition_of(name, kinds[0]) is definition


def test_a_similar_name_returns_suggestions() -> None:
    assert "DCGM_CUSTOM_PROCESS_SM_UTIL" in str(definition_of("DCGM_CUSTOM_PROCES_SM_UTL", ObjectKind.PODS))


def test_a_dissimilar_name_returns_all_names_of_that_kind() -> None:
    hint = str(definition_of("qps", ObjectKind.PODS))
    assert "DCGM_CUSTOM_PROCESS_MEM_USED" in hint
    assert "DCGM_FI_DEV_GPU_UTIL" not in hint


def test_a_metric_of_gpus_is_not_one_of_pods() -> None:
    assert isinstance(definition_of("DCGM_FI_DEV_GPU_UTIL", ObjectKind.PODS), str)
