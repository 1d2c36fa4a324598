"""Configuration and static pod of kube-scheduler, as plain values. Pure."""
