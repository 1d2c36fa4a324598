"""A soak of the whole stack under random faults: ``make test-soak``, and two minutes of it in CI.

``schedule`` decides all actions from a seed, without I/O; ``performing`` carries them out on the cluster of
``cluster``, and ``records`` compares the records of all components when no fault is left. What belongs here:
faults that are combined at random. What does not: single faults, each with a test
(``tests/integration/faults``).
"""
