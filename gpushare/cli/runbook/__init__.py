"""``kubectl gpushare runbook``: what an alert means, and what to do, without the documentation."""
