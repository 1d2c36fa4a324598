"""What any test may need: needs of the machine, waiting, and checks of results. No tests here."""
