"""``kubectl gpushare node-group``: what Cluster Autoscaler has to know of a group without nodes."""
