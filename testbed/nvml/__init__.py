"""A FAKE NVIDIA driver for tests: a ``libnvidia-ml.so.1`` that reports the GPUs that a test describes.

The GPUs are simulated below NVML, so that tests run the real ``pynvml`` and everything above it.
What belongs here: the library (C, in ``native/``), its description and its control. What does not:
anything that a gpushare daemon needs at run time.

    stub = NvmlStub(folder, era=535, cards=[card("T4"), card("P40")])
    subprocess.run([...], env={**os.environ, **stub.env})
    stub.xid(0, 79)
"""

from testbed.nvml.description import GpuProcess, NvmlGpu, Pair
from testbed.nvml.eras import ERAS
from testbed.nvml.profiles import PROFILES, card
from testbed.nvml.stub import NvmlStub

__all__ = ["ERAS", "PROFILES", "GpuProcess", "NvmlGpu", "NvmlStub", "Pair", "card"]
