"""GPU isolation: the library that limits containers to their shares of a GPU, and the formats of its files.

The library (C, in ``native/``) is preloaded into containers. It reads the limit file and counts usage in the
region. Mounting them into containers belongs to ``gpushare.deviceplugin``.
"""
