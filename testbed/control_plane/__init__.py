"""etcd, API server, controller manager, scheduler and kwok of a testbed."""
