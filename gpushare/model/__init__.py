"""Values and their text forms: quantities, demands, cards, annotations, pods and nodes.

Pure: nothing here does I/O, reads a clock or logs. Text that cannot be understood becomes a
``Malformed`` value with the problem; it never becomes a default.
"""
