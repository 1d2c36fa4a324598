"""What the stub ``libnvidia-ml.so.1`` of each driver era is made of; ``compiling`` compiles it."""

from pathlib import Path
from typing import Final

from gpushare.errors import ConfigError
from testbed.nvml.eras import ERAS, functions
from testbed.programs.compiling import EXPORTS, Source, compiled

SONAME: Final = "libnvidia-ml.so.1"
_NATIVE: Final = Path(__file__).parent / "native"


def library(era: int, root: Path | None = None) -> Path:
    """The stub of that era, compiled first where the cache does not have it.

    Raises ConfigError for an unknown era, and TestbedError with the compiler's words.
    """
    return compiled(source(era), root)


def source(era: int) -> Source:
    """What is compiled. Raises ConfigError for an unknown era."""
    check_era(era)
    return Source(f"nvml-{era}", SONAME, _NATIVE, {EXPORTS: _exports(era)})


def check_era(era: int) -> None:
    """Raise ConfigError for an unknown one."""
    if era not in ERAS:
        raise ConfigError(f"era {era} is unknown: choose one of {', '.join(map(str, ERAS))}")


def _exports(era: int) -> str:
    """The functions of the era, and nothing else."""
    names = "".join(f"    {name};\n" for name in sorted(functions(era)))
    return f"{{\nglobal:\n{names}local:\n    *;\n}};\n"
