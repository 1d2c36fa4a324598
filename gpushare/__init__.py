"""GPU sharing for Kubernetes: several pods share one NVIDIA GPU."""

__version__ = "0.1.0"
