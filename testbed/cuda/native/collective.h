#ifndef STUB_CUDA_COLLECTIVE_H
#define STUB_CUDA_COLLECTIVE_H

#include "machine.h"

/* The parameters of the kernel. `path` is a file that the ranks share; `ns` is how long it runs once all have started. */
struct collective {
    u64 ns;
    const char *path;
    u32 rank, ranks;
};

/* Blocks until all ranks have launched it; the GPU is busy from its turn on. */
int collective_run(int card, const struct collective *kernel);

#endif
