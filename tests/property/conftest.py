"""How hard the property tests search. More examples: ``GPUSHARE_EXAMPLES=2000 pytest tests/property``."""

import os

from hypothesis import settings

settings.register_profile(
    "gpushare", deadline=None, max_examples=int(os.environ.get("GPUSHARE_EXAMPLES", "100")), print_blob=True
)
settings.load_profile("gpushare")
