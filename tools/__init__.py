"""Generators of files in the checkout, its vocabulary check, and the runner of molecule."""
