"""Values for tests: objects, texts, files, images. Nothing here runs or is stopped. No tests here."""
