/* The state of the fake driver, written by the testbed. No NVML call belongs here. */
#ifndef STUB_NVML_STATE_H
#define STUB_NVML_STATE_H

#include <stdbool.h>

#include "abi.h"

/* Numbers of a GPU, by their names in the state file. A number that is missing there is ABSENT here,
   and its function returns NOT_SUPPORTED. */
#define NUMBERS(X)                                                                                    \
    X(minor) X(arch) X(brand) X(cc_major) X(cc_minor) X(numa_id) X(lost)                              \
    X(total_mib) X(reserved_mib) X(used_mib) X(bar1_total_mib) X(bar1_used_mib)                       \
    X(compute_mode) X(persistence) X(mig)                                                             \
    X(gpu_util) X(memory_util) X(encoder_util) X(decoder_util)                                        \
    X(temperature) X(memory_temperature) X(fan) X(power_mw) X(power_limit_mw) X(energy_mj) X(pstate)  \
    X(sm_clock) X(memory_clock) X(video_clock) X(max_sm_clock) X(max_memory_clock)                    \
    X(max_video_clock) X(throttle_reasons)                                                            \
    X(ecc) X(ecc_corrected) X(ecc_uncorrected) X(ecc_corrected_ever) X(ecc_uncorrected_ever)          \
    X(remapped_corrected) X(remapped_uncorrected) X(remap_pending) X(remap_failed)                    \
    X(recovery_action)                                                                                \
    X(pcie_tx_kib) X(pcie_rx_kib) X(pcie_replays) X(pcie_gen) X(pcie_width) X(pcie_max_gen)           \
    X(pcie_max_width) X(events) X(nvlinks)

#define ABSENT (-1LL)
#define MAX_CARDS 32
#define MAX_PROCESSES 128
#define MAX_LINKS 18
#define MAX_FAILURES 64
#define MAX_EVENTS 64
#define TEXT 96

enum kind { COMPUTE, GRAPHICS, MPS };

struct process {
    u32 pid;
    long long used_mib;
    u32 sm, memory, encoder, decoder;
    enum kind kind;
};

/* One active NVLink and the device at its other end, as nvmlIntNvLinkDeviceType_t counts them. */
struct link {
    char pci[TEXT];
    u32 type;
};

struct card {
    char uuid[TEXT], name[TEXT], pci[TEXT], serial[TEXT];
#define FIELD(name) long long name;
    NUMBERS(FIELD)
#undef FIELD
    struct process processes[MAX_PROCESSES];
    int process_count;
    struct link links[MAX_LINKS];
    int link_count;
    u32 level[MAX_CARDS]; /* nvmlGpuTopologyLevel_t to the GPU at that position */
};

struct failure {
    char function[TEXT], uuid[TEXT]; /* uuid "-": every GPU */
    u32 code;
};

struct event {
    u64 number;
    char uuid[TEXT]; /* "-": the driver does not report the GPU */
    u64 type, data;
};

struct state {
    char driver[TEXT], nvml[TEXT];
    int cuda;
    bool v1_counts_reserve, recovery_action_known, loaded, hang;
    struct card cards[MAX_CARDS];
    int card_count;
    struct failure failures[MAX_FAILURES];
    int failure_count;
    struct event events[MAX_EVENTS];
    int event_count;
};

/* Reads the file of STUB_NVML if it has changed. Returns OK, DRIVER_NOT_LOADED if there is none, or
   UNKNOWN for an invalid one, with the line on stderr. The caller has the lock. */
u32 state_refresh(void);

/* The state file: STUB_NVML, or by default STUB_STATE. */
const char *state_path(void);
const struct state *state_now(void);

#endif
