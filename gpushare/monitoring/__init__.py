"""What gpushare measures: the catalogue of metrics, which code and docs both read."""
