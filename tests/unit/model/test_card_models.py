import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.card_models import initial_context_mib, is_data_centre, label_value


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


TESLA, QUADRO, GRID, GEFORCE, TITAN, NVIDIA_RTX, NVIDIA = 2, 1, 4, 5, 6, 13, 14


@pytest.mark.parametrize(
    ("model", "brand", "data_centre"),
    [
        ("Tesla T4", TESLA, True),
        ("Tesla V100-SXM2-16GB", TESLA, True),
        ("NVIDIA H100 80GB HBM3", NVIDIA, True),
        ("NVIDIA H100 80GB HBM3", None, True),
        ("NVIDIA A100-SXM4-40GB", None, True),
        ("NVIDIA R300 288GB", NVIDIA, True),  # a model of the future
        ("NVIDIA R300 288GB", None, False),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", NVIDIA_RTX, True),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", None, True),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", NVIDIA_RTX, False),
        ("NVIDIA L40S-48C", 9, True),
        ("NVIDIA A100-3-20C", None, True),
        ("NVIDIA A100-1-5CME", None, True),
        ("GRID RTX6000-4Q", GRID, True),
        ("GRID V100D-8Q", None, True),
        ("NVIDIA RTX A6000", NVIDIA_RTX, False),
        ("NVIDIA RTX 6000 Ada Generation", None, False),
        ("NVIDIA T1000 8GB", NVIDIA, False),
        ("Quadro P2200", QUADRO, False),
        ("NVIDIA GeForce RTX 4090", GEFORCE, False),
        ("NVIDIA GeForce H100", None, False),
        ("NVIDIA TITAN Xp", TITAN, False),
        ("NVIDIA CMP 170HX", NVIDIA, False),
        ("NVIDIA GB10", NVIDIA, False),
        ("Orin (nvgpu)", NVIDIA, False),
        ("NVIDIA A100X Laptop GPU", NVIDIA, False),
        ("", None, False),
    ],
)
def test_data_centre_gpus_are_known_by_brand_and_name(
    model: str,
    brand: int | None,
    data_centre: bool,  # noqa: FBT001 - a table
) -> None:
    assert is_data_centre(model, brand) is data_centre


@given(st.text(max_size=200))
def test_a_label_value_is_always_valid(text: str) -> None:
    value = label_value(text)
    assert value is None or re.fullmatch(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]", value)
