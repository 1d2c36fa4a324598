"""MPS: paths and the ready lock of the control daemons, which let programs share a GPU at the same time.

``gpushare.mpsd`` runs the control daemons, ``gpushare.deviceplugin`` limits containers to their share.
"""
