"""A FAKE CUDA driver for tests: a ``libcuda.so.1`` that hands out memory of cards that are not there.

It counts what each process has and how long a card works for it, as a driver does, so that a test can see
whether a limit held. A kernel computes nothing: it takes its time. What belongs here: the library (C, in
``native/``) and its cards. What does not: anything that gpushare needs at run time.

    stub = CudaStub(folder, era=535, cards=[CudaCard("GPU-…", total_mib=16130, context_mib=121)])
    subprocess.run([...], env={**os.environ, **stub.env})
    stub.used(0), stub.peak(0), stub.busy_ns(0)
"""

from testbed.cuda.stub import CudaCard, CudaStub

__all__ = ["CudaCard", "CudaStub"]
