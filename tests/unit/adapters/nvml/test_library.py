"""NVML below the root folder of a driver; with a library: ``tests/process/adapters/nvml/test_gpus.py``."""

from pathlib import Path

import pytest

from gpushare.adapters.nvml import Nvml
from gpushare.errors import GpuError


async def test_a_folder_without_a_driver_is_an_error_with_flag_and_folders(tmp_path: Path) -> None:
    async with Nvml(driver_root=tmp_path) as gpus:
        with pytest.raises(
            GpuError, match=rf"--driver-root={tmp_path} has no libnvidia-ml.so.1 \(in usr/lib64, "
        ):
            await gpus.inventory()


@pytest.mark.parametrize("folder", ["usr/lib64", "usr/lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"])
async def test_a_file_that_is_no_library_is_an_error_with_its_path(tmp_path: Path, folder: str) -> None:
    file = tmp_path / folder / "libnvidia-ml.so.1"
    file.parent.mkdir(parents=True)
    file.write_text("no library")
    async with Nvml(driver_root=tmp_path) as gpus:
        with pytest.raises(GpuError, match=rf"{file} cannot be loaded"):
            await gpus.inventory()
