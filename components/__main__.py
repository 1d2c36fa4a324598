"""The component provider: ``GpuShare`` for Pulumi programs in other languages (``PulumiPlugin.yaml``).

Pulumi runs this folder as a program, so its parent is not on ``sys.path``.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pulumi import InputPropertiesError, Inputs, ResourceOptions
from pulumi.provider import ConstructResult, main
from pulumi.provider.experimental import component
from pulumi.provider.experimental.analyzer import Analyzer
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

from components.args import text_of
from components.resources import GpuShare
from gpushare import __version__
from gpushare.errors import ConfigError

_NAME = "gpushare"


class _Documented(Analyzer):
    """The SDK reads the texts of fields from their source; fields that options make are in none."""

    def get_docstring(self, typ: type, name: str) -> str | None:
        """The text of a field."""
        return super().get_docstring(typ, name) or text_of(typ, name)


# The provider makes its analyser itself.
component.Analyzer = _Documented  # type: ignore[attr-defined]


class Provider(ComponentProvider):
    """The SDK reports an error of a component with a traceback; invalid settings are one line."""

    def construct(
        self, name: str, resource_type: str, inputs: Inputs, options: ResourceOptions | None = None
    ) -> ConstructResult:
        """The constructed component. Raises InputPropertiesError if its settings are invalid."""
        try:
            return super().construct(name, resource_type, inputs, options)
        except ComponentInitError as error:
            if isinstance(error.inner, ConfigError):
                # Without a list of errors, the SDK fails with an AttributeError.
                raise InputPropertiesError(str(error.inner), []) from error
            raise


if __name__ == "__main__":
    main(Provider([GpuShare], _NAME, version=__version__), sys.argv[1:])
