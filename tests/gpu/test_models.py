"""The model of the benchmark computes what a decoder computes; needs PyTorch, and no GPU."""

import json
import subprocess

from tests.gpu.conftest import PYTHON, TIMEOUT_S, needs
from tests.support.fixtures.isolation import ROOT

AGREES = """
import json, torch
from tests.bench.models.engine import TorchEngine
from tests.bench.models.shapes import SHAPES
torch.set_grad_enabled(False)
shape = SHAPES["tiny"]._replace(tied=False)  # with tied weights, a token is followed by itself
engines = [TorchEngine(shape, 3, 64, 1, "cpu") for _ in range(2)]
prompts = [[3, 5, 7, 9], [1, 2], [9, 8, 7, 6, 5, 4, 3]]
served, whole = engines
for slot, prompt in enumerate(prompts):
    served.begin(slot, torch.tensor(prompt))
sequences = [list(prompt) for prompt in prompts]
for _ in range(6):
    for sequence, token in zip(sequences, served.tokens.tolist()):
        sequence.append(token)
    served.decode()
same = []
for prompt, sequence in zip(prompts, sequences):
    for count in range(len(prompt), len(sequence)):
        whole.begin(0, torch.tensor(sequence[:count]))
        same.append(int(whole.tokens[0]) == sequence[count])
print(json.dumps([same, len(set(sequences[0]))]))
"""


def test_a_token_from_the_cache_is_the_one_from_the_whole_sequence() -> None:
    needs("torch")
    done = subprocess.run(  # noqa: S603 - a Python
        [PYTHON, "-c", AGREES], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    same, different = json.loads(done.stdout)
    assert same == [True] * 18
    assert different > 4, "a model that repeats one token would pass"
