"""Our services and their neighbours as processes of a bed."""
