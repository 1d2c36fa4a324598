"""Stand-ins for programs and services that tests cannot run. No tests here."""
