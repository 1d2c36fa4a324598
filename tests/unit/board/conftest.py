from tests.unit.cli.conftest import api

__all__ = ["api"]
