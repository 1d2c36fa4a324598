"""A FAKE CUDA driver for tests: a ``libcuda.so.1`` that allocates memory of simulated GPUs.

Like a driver, it counts the memory and the compute time of each process, so that a test can check the
enforcement of limits. Kernels compute nothing: they only take time. What belongs here: the library (C, in
``native/``) and its GPUs. What does not: anything that gpushare needs at run time.

    stub = CudaStub(folder, era=535, cards=[CudaCard("GPU-…", total_mib=16130, context_mib=121)])
    subprocess.run([...], env={**os.environ, **stub.env})
    stub.used(0), stub.peak(0), stub.busy_ns(0)
"""

from testbed.cuda.stub import INSIDE, CudaCard, CudaStub

__all__ = ["INSIDE", "CudaCard", "CudaStub"]
