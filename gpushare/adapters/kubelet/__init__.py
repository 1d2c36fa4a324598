"""The kubelet, seen from the node agent: its sockets, its folder, its checkpoint and its HTTP port.

With ``gpushare.deviceplugin`` the only package that imports ``grpc``. Gives plain values; decides nothing.
"""
