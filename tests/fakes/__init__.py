"""Stand-ins for programs and services that a test cannot have; each says what it stands in for."""
