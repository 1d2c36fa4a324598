"""Callback plugins for Ansible; it imports them without this package."""
