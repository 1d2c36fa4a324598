"""Why a pod waits for a GPU, and what would make it fit. Pure."""
