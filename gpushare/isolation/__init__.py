"""GPU isolation: file formats that keep a container within its share of a GPU.

The library that is preloaded into containers (C, in ``native/``), the limit file that it reads and the
region that it writes. Mounting them into containers belongs to ``gpushare.deviceplugin``.
"""
