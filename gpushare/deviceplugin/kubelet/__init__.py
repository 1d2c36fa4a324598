"""The kubelet's side: registration, the gRPC endpoint, and Allocate."""
