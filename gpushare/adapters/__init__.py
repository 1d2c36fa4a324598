"""All I/O, one package per external system. Adapters implement the protocols of ``gpushare.ports``."""
