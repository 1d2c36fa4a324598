"""Output of ``kubectl inspect gpushare`` and ``arena top node``, byte for byte. Pure."""
