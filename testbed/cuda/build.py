"""The sources of the stub ``libcuda.so.1`` of each driver era; ``compiling`` compiles them."""

from pathlib import Path
from typing import Final

from testbed.cuda.eras import functions
from testbed.nvml.build import check_era
from testbed.nvml.eras import ERAS
from testbed.programs.compiling import EXPORTS, Source, compiled

SONAME: Final = "libcuda.so.1"
_NATIVE: Final = Path(__file__).parent / "native"


def library(era: int, root: Path | None = None, compiler: str = "gcc") -> Path:
    """Return the stub of an era; compile it first if it is not in the cache.

    ``compiler`` may be a cross compiler. Raises ConfigError for an unknown era, and TestbedError with the
    output of the compiler.
    """
    check_era(era)
    version = ERAS[era].cuda
    names = functions(version)
    generated = {EXPORTS: _exports(names), "functions.h": "".join(f"F({name})\n" for name in names)}
    # Like in the real driver, calls within the library cannot be intercepted.
    flags = (f"-DSTUB_VERSION={version}", "-Wl,-Bsymbolic")
    return compiled(Source(f"cuda-{era}", SONAME, _NATIVE, generated, flags, compiler), root)


def _exports(names: tuple[str, ...]) -> str:
    """Return a version script; like in the real library, the version has the name of the library."""
    listed = "".join(f"    {name};\n" for name in names)
    return f"{SONAME} {{\nglobal:\n{listed}local:\n    *;\n}};\n"
