"""Values and their text forms: quantities, demands, cards, annotations, pods and nodes.

Pure: nothing here does I/O, reads a clock or logs. Text that cannot be understood becomes a
``Malformed`` value that says what is wrong; it never becomes a default.
"""
