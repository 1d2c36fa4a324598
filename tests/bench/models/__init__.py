"""``make bench PART=models``: two servers of one language model on one GPU.

``trace`` has the requests, ``arms`` what is compared and when, ``results`` the statistics, ``report`` the
page: all pure. ``running`` starts the servers of an arm. ``server`` is their program: it runs in the Python
of GPU_PYTHON, so it and what it imports (``trace``, ``shapes``, ``serving``, ``engine``) use PyTorch and the
standard library only.
"""
