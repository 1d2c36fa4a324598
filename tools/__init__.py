"""Generators of files in the checkout, and the runner of molecule."""
