"""A FAKE NVIDIA driver for tests: a ``libnvidia-ml.so.1`` that says what a test wants it to say.

The cards are simulated below NVML, so that the real ``pynvml`` and everything above it is what runs.
What belongs here: the library (C, in ``native/``), its description and its control. What does not:
anything that a daemon of gpushare needs at run time.

    stub = NvmlStub(folder, era=535, cards=[card("T4"), card("P40")])
    subprocess.run([...], env={**os.environ, **stub.env})
    stub.xid(0, 79)
"""

from testbed.nvml.description import Card, Pair, Process
from testbed.nvml.eras import ERAS
from testbed.nvml.profiles import PROFILES, card
from testbed.nvml.stub import NvmlStub

__all__ = ["ERAS", "PROFILES", "Card", "NvmlStub", "Pair", "Process", "card"]
