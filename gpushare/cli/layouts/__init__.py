"""Texts of the tools, byte for byte as their originals print them. Pure."""
