"""Rules for every stack of this project, and the CrossGuard pack that enforces them."""
