"""``kubectl gpushare node-group`` on the command line."""

import json

import pytest
import yaml
from click.testing import CliRunner

from gpushare.cli.node_group.command import _PROVIDERS, command
from gpushare.cli.node_group.entries import PROVIDERS

FLAGS = ["--provider", "aws", "--gpus", "4", "--units", "22"]
TAGS = {
    "k8s.io/cluster-autoscaler/node-template/label/gpushare": "true",
    "k8s.io/cluster-autoscaler/node-template/label/tier": "gpu-gold",
    "k8s.io/cluster-autoscaler/node-template/resources/aliyun.com/gpu-mem": "88",
    "k8s.io/cluster-autoscaler/node-template/resources/aliyun.com/gpu-count": "4",
}


def test_the_tags_are_a_mapping_of_texts() -> None:
    words = [*FLAGS, "--label", "tier=gpu-gold"]
    assert yaml.safe_load(CliRunner().invoke(command, words).output) == TAGS
    assert json.loads(CliRunner().invoke(command, [*words, "-o", "json"]).output) == TAGS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "0"], "0 is not in the range"),
        (["--units", "-1"], "-1"),
        (["--label", "tier"], "'tier' is not a label such as tier=gpu-gold"),
        (["--label", "=x"], "is not a label"),
        (["--label", "gpushare=false"], "label gpushare=false; set another --label"),
        (["--provider", "cloud"], "'cloud' is not one of"),
    ],
)
def test_wrong_usage_names_the_flag_or_its_value(words: list[str], said: str) -> None:
    result = CliRunner().invoke(command, [*FLAGS, *words])
    assert result.exit_code == 2
    assert said in result.output


def test_every_provider_can_be_chosen() -> None:
    assert set(_PROVIDERS) == set(PROVIDERS)
