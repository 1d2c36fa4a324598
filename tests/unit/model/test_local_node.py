"""Which of several pods has a UID of the kubelet."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from gpushare.model.local_node import LocalPod, by_uid
from tests.support.builders.gpu_pods import gpu_pod

OWN = LocalPod("uid", "default", "own")
LARGE = LocalPod("uid", "default", "large", gpu_pod=gpu_pod("large", 8), mirror=True)
SMALL = LocalPod("uid", "default", "small", gpu_pod=gpu_pod("small", 1), mirror=True)


@pytest.mark.parametrize("pods", list(permutations([OWN, LARGE, SMALL])))
def test_a_pod_keeps_its_uid_whatever_mirrors_claim_it(pods: Sequence[LocalPod]) -> None:
    assert by_uid(pods) == {"uid": OWN}


@pytest.mark.parametrize("pods", list(permutations([LARGE, SMALL])))
def test_of_several_mirrors_that_with_the_most_units_counts(pods: Sequence[LocalPod]) -> None:
    assert by_uid(pods) == {"uid": LARGE}
