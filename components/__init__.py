"""What runs in a cluster, from settings: pure builders of objects, and Pulumi components over them.

What belongs here: deployment. What does not: anything that a daemon does when it runs.
"""
