"""MPS: the control daemons of a node's cards, which let programs share a card at the same moment.

What belongs here: where their pipes are, keeping them up, and what they are told. What does not: giving
containers their part (``gpushare.deviceplugin``).
"""
