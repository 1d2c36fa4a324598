"""``kubectl gpushare migrate``: what moving from the Aliyun pair or from HAMi needs. Reads only."""
