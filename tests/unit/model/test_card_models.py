import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.card_models import initial_context_mib, label_value


@pytest.mark.parametrize(
    ("model", "label"),
    [
        ("Tesla T4", "Tesla-T4"),
        ("Tesla V100-SXM2-16GB", "Tesla-V100-SXM2-16GB"),
        ("NVIDIA RTX 6000 Ada (Gen/2)", "NVIDIA-RTX-6000-Ada-Gen-2"),
        ("  --x--  ", "x"),
        ("x" * 70, "x" * 63),
        ("x" * 62 + " y", "x" * 62),
        ("显卡", None),
        ("", None),
    ],
)
def test_a_model_becomes_a_label_value_as_on_ack(model: str, label: str | None) -> None:
    assert label_value(model) == label


@pytest.mark.parametrize(
    ("model", "mib"),
    [
        ("NVIDIA H200", 518),
        ("NVIDIA H100 80GB HBM3", 518),
        ("NVIDIA GB200", 518),
        ("Tesla V100-SXM2-16GB", 121),
        ("NVIDIA H20", 121),
        ("NVIDIA A100-SXM4-40GB", 121),
        ("NVIDIA GeForce H100", 121),
        ("", 121),
    ],
)
def test_a_context_is_at_first_as_large_as_on_the_measured_gpus(model: str, mib: int) -> None:
    assert initial_context_mib(model) == mib


@given(st.text(max_size=200))
def test_a_label_value_is_always_valid(text: str) -> None:
    value = label_value(text)
    assert value is None or re.fullmatch(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]", value)
