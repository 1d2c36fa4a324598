"""``kubectl gpushare migrate``: what moving from the Aliyun pair, from ACK or from HAMi needs. Reads only."""
