"""Generators of files in the checkout, the vocabulary check, and the runner of molecule."""
