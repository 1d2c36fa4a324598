"""The kubelet as seen from the node: sockets, device-plugin directory, checkpoint and HTTP port.

Only this package and ``gpushare.deviceplugin`` import ``grpc``. It returns plain values.
"""
