"""The sources of the stub ``libnvidia-ml.so.1`` of each driver era; ``compiling`` compiles them."""

from pathlib import Path
from typing import Final

from gpushare.errors import ConfigError
from testbed.nvml.eras import ERAS, functions
from testbed.programs.compiling import EXPORTS, Source, compiled

SONAME: Final = "libnvidia-ml.so.1"
INSIDE: Final = "/run/stub-nvml"
"""The folder of a stub in containers, where the library looks for its state by default."""
STATE: Final = "state"
"""Name of the state file in that folder."""
_NATIVE: Final = Path(__file__).parent / "native"


def library(era: int) -> Path:
    """Return the stub of an era; compile it first if it is not in the cache.

    Raises ConfigError for an unknown era, and DevkitError with the output of the compiler.
    """
    return compiled(source(era))


def source(era: int) -> Source:
    """Return the source of an era. Raises ConfigError for an unknown era."""
    check_era(era)
    flags = (f'-DSTUB_STATE="{INSIDE}/{STATE}"',)
    return Source(f"nvml-{era}", SONAME, _NATIVE, {EXPORTS: _exports(era)}, flags)


def check_era(era: int) -> None:
    """Raise ConfigError for an unknown era."""
    if era not in ERAS:
        raise ConfigError(f"era {era} is unknown: choose one of {', '.join(map(str, ERAS))}")


def _exports(era: int) -> str:
    """Return a version script that exports only the functions of the era."""
    names = "".join(f"    {name};\n" for name in sorted(functions(era)))
    return f"{{\nglobal:\n{names}local:\n    *;\n}};\n"
