"""kube-scheduler's configuration and static pod, as plain values. Pure."""
