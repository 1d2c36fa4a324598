"""What every stack of this project must keep: rules, and the CrossGuard pack that enforces them."""
