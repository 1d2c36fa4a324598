"""What tests share: builders, checkers, a proxy that misbehaves. No tests here."""
