"""``kubectl gpushare fit``: what would fit now, for people who choose a request."""
