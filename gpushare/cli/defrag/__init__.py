"""``kubectl gpushare defrag``: make room for pods that wait, by moving and evicting others."""
