"""The library installer: installs the isolation library on a node and removes unused versions."""
