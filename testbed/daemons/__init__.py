"""Our services, Prometheus and prometheus-adapter as processes of a testbed."""
