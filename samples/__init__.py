"""The programs of the examples: they use a GPU through the driver's API, and know nothing of gpushare.

What belongs here: programs that run with plain Python and NVIDIA's driver library, in the image ``samples``.
What does not: anything of ``gpushare``, and tests.
"""
