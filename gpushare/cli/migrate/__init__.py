"""``kubectl gpushare migrate``: what moving from the Aliyun gpushare pair or from HAMi needs. Reads only.

``gather`` reads the cluster or files, ``survey`` judges installations, nodes and workloads, ``hami`` converts
the workloads of HAMi, ``view`` shows the result.
"""
