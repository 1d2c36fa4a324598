"""All I/O, one package per outside world. Adapters implement the protocols of ``gpushare.ports``."""
