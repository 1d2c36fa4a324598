"""Requirements of the machine, waiting, and checks of results. No tests here."""
