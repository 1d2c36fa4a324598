"""Isolation: what keeps a container within its share of a card.

What belongs here: the library that is preloaded into containers (C, in ``native/``), the limit file that
it reads and the region that it keeps. What does not: mounting them (``gpushare.deviceplugin``).
"""
