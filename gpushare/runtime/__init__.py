"""Infrastructure of all daemons: flags, logs, signals, HTTP servers, TLS. Independent of GPUs."""
