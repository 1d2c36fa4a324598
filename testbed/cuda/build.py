"""What the stub ``libcuda.so.1`` of each driver era is made of; ``compiling`` compiles it."""

from pathlib import Path
from typing import Final

from testbed.cuda.eras import functions
from testbed.nvml.build import check_era
from testbed.nvml.eras import ERAS
from testbed.programs.compiling import EXPORTS, Source, compiled

SONAME: Final = "libcuda.so.1"
_NATIVE: Final = Path(__file__).parent / "native"


def library(era: int, root: Path | None = None, compiler: str = "gcc") -> Path:
    """The stub of that era, compiled first where the cache does not have it.

    Another ``compiler`` than this machine's makes it for another one.

    Raises ConfigError for an unknown era, and TestbedError with the compiler's words.
    """
    check_era(era)
    version = ERAS[era].cuda
    names = functions(version)
    generated = {EXPORTS: _exports(names), "functions.h": "".join(f"F({name})\n" for name in names)}
    # As the real driver's, calls within the library are not for others to intercept.
    flags = (f"-DSTUB_VERSION={version}", "-Wl,-Bsymbolic")
    return compiled(Source(f"cuda-{era}", SONAME, _NATIVE, generated, flags, compiler), root)


def _exports(names: tuple[str, ...]) -> str:
    """The version has the library's name, as that of the real one."""
    listed = "".join(f"    {name};\n" for name in names)
    return f"{SONAME} {{\nglobal:\n{listed}local:\n    *;\n}};\n"
