"""``kubectl gpushare certificates``: the certificates between kube-scheduler and the extender."""
