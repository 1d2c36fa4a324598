"""What the annotations of a pod say about GPUs, and which of them are refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.contract import (
    ANN_AVOID_MODELS,
    ANN_AVOID_UUIDS,
    ANN_OTHER_GPU,
    ANN_SAME_GPU,
    ANN_USE_MODELS,
    ANN_USE_UUIDS,
    CHOICE_ANNOTATIONS,
)
from gpushare.errors import InvalidRequest
from gpushare.model.gpu_choice import GpuChoice, gpu_choice, is_model, unusable_for

A100 = "NVIDIA A100-SXM4-80GB"
T4 = "Tesla T4"


def chosen(annotations: dict[str, str]) -> GpuChoice:
    return gpu_choice(tuple(annotations.items()), "ml")


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("A100", A100),
        ("a100-sxm4", A100),
        ("NVIDIA A100-SXM4-80GB", A100),
        ("T4", T4),
        ("Tesla-T4", T4),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
    ],
)
def test_a_name_is_a_model_if_its_words_are_there_in_a_row(name: str, model: str) -> None:
    assert is_model(name, model)


@pytest.mark.parametrize(("name", "model"), [("A10", A100), ("80GB A100", A100), ("T4", "NVIDIA T400 4GB")])
def test_parts_of_words_are_no_name(name: str, model: str) -> None:
    assert not is_model(name, model)


@pytest.mark.parametrize(
    ("annotations", "allowed"),
    [
        ({ANN_USE_MODELS: "A100, H100"}, [True, False, False]),
        ({ANN_AVOID_MODELS: "T4"}, [True, False, False]),
        ({ANN_USE_UUIDS: "GPU-b"}, [False, True, False]),
        ({ANN_AVOID_UUIDS: "GPU-b,GPU-gone"}, [True, False, False]),
        ({ANN_USE_MODELS: "A100,T4", ANN_AVOID_UUIDS: "GPU-a"}, [False, True, False]),
    ],
)
def test_lists_allow_what_they_name_or_all_but_that(annotations: dict[str, str], allowed: list[bool]) -> None:
    gpus = [(A100, "GPU-a"), (T4, "GPU-b"), ("", "")]
    assert [chosen(annotations).allows(*gpu) for gpu in gpus] == allowed


def test_pods_are_named_within_the_namespace() -> None:
    named = chosen({ANN_SAME_GPU: "trainer-0"}).same_as
    assert named is not None
    assert ("ml/trainer-0", ()) in named
    assert ("ml/trainer-1", ()) not in named
    assert ("other/trainer-0", ()) not in named


def test_pods_are_selected_by_labels_within_the_namespace() -> None:
    selected = chosen({ANN_OTHER_GPU: "app=web,tier!=test"}).other_than
    assert selected is not None
    assert ("ml/a", (("app", "web"),)) in selected
    assert ("ml/a", (("app", "web"), ("tier", "test"))) not in selected
    assert ("other/a", (("app", "web"),)) not in selected


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({ANN_USE_MODELS: " , "}, "annotation gpushare.io/use-gpu-models= ,  is not a list of 1 to 64 names"),
        ({ANN_AVOID_UUIDS: ",".join(["GPU-a"] * 65)}, "annotation gpushare.io/avoid-gpu-uuids=GPU-a,GPU-a,"),
        (
            {ANN_USE_UUIDS: "0"},
            "annotation gpushare.io/use-gpu-uuids=0: '0' is no UUID of a GPU, as GPU-1b2c…",
        ),
        ({ANN_USE_MODELS: "--"}, "annotation gpushare.io/use-gpu-models=--: '--' is no model of a GPU"),
        (
            {ANN_SAME_GPU: ""},
            "annotation gpushare.io/same-gpu-as= is neither the name of a pod nor 1 to 16 labels",
        ),
        (
            {ANN_SAME_GPU: ",".join(f"!a{at}" for at in range(17))},
            "annotation gpushare.io/same-gpu-as=!a0,!a1",
        ),
        ({ANN_OTHER_GPU: "," * 4096}, "annotation gpushare.io/other-gpu-than=,,,,"),
        ({ANN_SAME_GPU: "a/b/c d"}, "annotation gpushare.io/same-gpu-as=a/b/c d is neither the name"),
        (
            {ANN_USE_UUIDS: "GPU-a", ANN_AVOID_UUIDS: "GPU-a,GPU-b"},
            (
                "annotation gpushare.io/use-gpu-uuids=GPU-a and annotation gpushare.io/avoid-gpu-uuids="
                "GPU-a,GPU-b leave no GPU"
            ),
        ),
        (
            {ANN_USE_MODELS: "A100-SXM4", ANN_AVOID_MODELS: "a100"},
            (
                "annotation gpushare.io/use-gpu-models=A100-SXM4 and annotation gpushare.io/avoid-gpu-models="
                "a100 leave no model"
            ),
        ),
        ({ANN_SAME_GPU: "app=a", ANN_OTHER_GPU: "app=a"}, "annotation gpushare.io/same-gpu-as=app=a and"),
    ],
)
def test_a_bad_value_is_refused_by_name(annotations: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chosen(annotations)
    assert str(refused.value).startswith(problem)


def test_a_long_value_is_shortened_in_texts() -> None:
    with pytest.raises(InvalidRequest) as refused:
        chosen({ANN_USE_MODELS: "x" * 100_000})
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({ANN_SAME_GPU: "web-0"}, "annotation gpushare.io/same-gpu-as=web-0 is the pod itself"),
        ({ANN_SAME_GPU: "app=web"}, "annotation gpushare.io/same-gpu-as=app=web is the pod itself"),
        ({ANN_OTHER_GPU: "web-0"}, "annotation gpushare.io/other-gpu-than=web-0 is the pod itself"),
        (
            {ANN_USE_UUIDS: "GPU-a"},
            "annotation gpushare.io/use-gpu-uuids=GPU-a is too few: the pod asks for 2",
        ),
    ],
)
def test_a_choice_that_the_pod_itself_cannot_meet_is_refused(
    annotations: dict[str, str], problem: str
) -> None:
    found = unusable_for(chosen(annotations), "ml/web-0", (("app", "web"),), 2)
    assert found is not None
    assert found.startswith(problem)


def test_replicas_may_keep_apart_by_their_own_labels() -> None:
    assert unusable_for(chosen({ANN_OTHER_GPU: "app=web"}), "ml/web-0", (("app", "web"),), 1) is None


@given(st.sampled_from(CHOICE_ANNOTATIONS), st.text(max_size=40) | st.text("ab,=!()in -", max_size=40))
def test_any_text_is_a_choice_or_is_refused(key: str, text: str) -> None:
    with suppress(InvalidRequest):
        choice = chosen({key: text})
        assert choice.texts == ((key, text),)
        assert choice.allows(A100, "GPU-a") in (True, False)
