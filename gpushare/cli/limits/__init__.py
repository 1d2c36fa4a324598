"""``kubectl gpushare limits``: memory limits of containers and their usage."""
