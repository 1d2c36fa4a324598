"""The functions of the CUDA library of each driver, among those that the stub implements.

What belongs here: facts about NVIDIA's releases, by the first ``cuda.h`` that declares a function. The
library also has the first versions of functions, which ``cuda.h`` no longer declares. The driver branches and
their CUDA versions are those of ``testbed.nvml.eras``.
"""

from collections.abc import Mapping
from typing import Final

FIRST_IN: Final[Mapping[int, tuple[str, ...]]] = {
    10010: (
        "cuArray3DCreate",
        "cuArray3DCreate_v2",
        "cuArrayCreate",
        "cuArrayCreate_v2",
        "cuArrayDestroy",
        "cuCtxAttach",
        "cuCtxCreate",
        "cuCtxCreate_v2",
        "cuCtxDestroy",
        "cuCtxDestroy_v2",
        "cuCtxDetach",
        "cuCtxGetCurrent",
        "cuCtxGetDevice",
        "cuCtxSetCurrent",
        "cuCtxSynchronize",
        "cuDeviceGet",
        "cuDeviceGetCount",
        "cuDeviceGetName",
        "cuDeviceGetUuid",
        "cuDevicePrimaryCtxRelease",
        "cuDevicePrimaryCtxReset",
        "cuDevicePrimaryCtxRetain",
        "cuDeviceTotalMem",
        "cuDeviceTotalMem_v2",
        "cuDriverGetVersion",
        "cuGLCtxCreate",
        "cuGLCtxCreate_v2",
        "cuGraphLaunch",
        "cuGraphLaunch_ptsz",
        "cuInit",
        "cuIpcCloseMemHandle",
        "cuIpcGetMemHandle",
        "cuIpcOpenMemHandle",
        "cuLaunchCooperativeKernel",
        "cuLaunchCooperativeKernel_ptsz",
        "cuLaunchKernel",
        "cuLaunchKernel_ptsz",
        "cuMemAlloc",
        "cuMemAllocManaged",
        "cuMemAllocPitch",
        "cuMemAllocPitch_v2",
        "cuMemAlloc_v2",
        "cuMemFree",
        "cuMemFree_v2",
        "cuMemGetInfo",
        "cuMemGetInfo_v2",
        "cuMipmappedArrayCreate",
        "cuMipmappedArrayDestroy",
        "cuModuleGetFunction",
        "cuModuleLoadData",
        "cuStreamBeginCapture_v2",
        "cuStreamEndCapture",
        "cuStreamIsCapturing",
        "cuStreamIsCapturing_ptsz",
        "cuThreadExchangeStreamCaptureMode",
        "cuVDPAUCtxCreate",
        "cuVDPAUCtxCreate_v2",
        "stubCudaName",
    ),
    10020: (
        "cuMemCreate",
        "cuMemExportToShareableHandle",
        "cuMemImportFromShareableHandle",
        "cuMemMap",
        "cuMemRelease",
        "cuMemUnmap",
    ),
    11000: (
        "cuDevicePrimaryCtxRelease_v2",
        "cuDevicePrimaryCtxReset_v2",
        "cuIpcOpenMemHandle_v2",
        "cuMemRetainAllocationHandle",
    ),
    11010: ("cuGraphUpload", "cuGraphUpload_ptsz"),
    11020: (
        "cuDeviceGetDefaultMemPool",
        "cuDeviceGetMemPool",
        "cuMemAllocAsync",
        "cuMemAllocAsync_ptsz",
        "cuMemAllocFromPoolAsync",
        "cuMemAllocFromPoolAsync_ptsz",
        "cuMemFreeAsync",
        "cuMemFreeAsync_ptsz",
        "cuMemPoolCreate",
        "cuMemPoolDestroy",
        "cuMemPoolGetAttribute",
        "cuMemPoolTrimTo",
    ),
    11030: ("cuGetProcAddress",),
    11040: (
        "cuCtxCreate_v3",
        "cuDeviceGetGraphMemAttribute",
        "cuDeviceGraphMemTrim",
        "cuGraphAddMemAllocNode",
    ),
    11060: ("cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"),
    12000: (
        "cuGetProcAddress_v2",
        "cuGraphInstantiateWithParams",
        "cuGraphInstantiateWithParams_ptsz",
    ),
    12020: ("cuGraphAddNode",),
    12030: ("cuGraphAddNode_v2",),
    12050: ("cuCtxCreate_v4",),
    13000: ("cuMemGetDefaultMemPool", "cuMemGetMemPool"),
}
"""CUDA version (1000 × major + 10 × minor) → functions that are new in its driver."""

WITHOUT_EXPORT: Final[Mapping[int, tuple[str, ...]]] = {13040: ("cuGraphAddNode_v13040",)}
"""The same for functions that only ``cuGetProcAddress`` returns; the names are those of the stub."""


def functions(cuda: int) -> tuple[str, ...]:
    """Return the exported functions of a CUDA version, sorted by name."""
    return _of(FIRST_IN, cuda)


def unexported(cuda: int) -> tuple[str, ...]:
    """Return the functions of a CUDA version without an export, sorted by name."""
    return _of(WITHOUT_EXPORT, cuda)


def _of(table: Mapping[int, tuple[str, ...]], cuda: int) -> tuple[str, ...]:
    return tuple(sorted(name for first, names in table.items() if first <= cuda for name in names))
