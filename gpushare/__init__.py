"""GPU sharing for Kubernetes: many pods on one NVIDIA card."""

__version__ = "0.1.0"
