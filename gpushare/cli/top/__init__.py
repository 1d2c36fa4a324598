"""``kubectl gpushare top``: the tables of ``arena top node``, and usage by GPU and pod."""
