"""``kubectl gpushare recommend``: right-sizing of GPU memory requests.

``gather`` reads pods and series, ``sizing`` applies the rule, ``view`` shows the result.
"""
