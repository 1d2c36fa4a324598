/* Finds functions in the symbol table of the loaded libc (libdl before glibc 2.34). dlvsym cannot be used for that:
   the dynamic linker binds a versioned reference to the unversioned function that this library exports. */
#define _GNU_SOURCE
#include "elf.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

struct table {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash;
};

struct search {
    const char *name;
    void *found;
};

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        hash = hash * 33 + *c;
    return hash;
}

/* glibc relocates these addresses on most architectures, and leaves them relative on others. */
static const void *address(ElfW(Addr) base, ElfW(Addr) value)
{
    return (const void *)(value < base ? base + value : value);
}

static struct table table_of(ElfW(Addr) base, const ElfW(Dyn) * dynamic)
{
    struct table table = {0};
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        const void *at = address(base, dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_SYMTAB)
            table.symbols = at;
        else if (dynamic->d_tag == DT_STRTAB)
            table.strings = at;
        else if (dynamic->d_tag == DT_GNU_HASH)
            table.hash = at;
    }
    return table;
}

/* Layout of the table: number of buckets, first symbol, words of the filter, its shift; filter, buckets, chains. */
static const ElfW(Sym) * symbol(const struct table *table, const char *name)
{
    uint32_t wanted = gnu_hash(name), buckets = table->hash[0], first = table->hash[1];
    const uint32_t *bucket = table->hash + 4 + table->hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    for (uint32_t i = buckets ? bucket[wanted % buckets] : 0; i >= first && i; i++) {
        const ElfW(Sym) *candidate = &table->symbols[i];
        if ((chain[i - first] | 1) == (wanted | 1) && candidate->st_shndx != SHN_UNDEF &&
            ELF64_ST_TYPE(candidate->st_info) == STT_FUNC &&
            !strcmp(table->strings + candidate->st_name, name))
            return candidate;
        if (chain[i - first] & 1)
            break;
    }
    return NULL;
}

static int is_libc(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash ? slash + 1 : path;
    return !strncmp(file, "libc.so.", 8) || !strncmp(file, "libdl.so.", 9) || !strncmp(file, "libc-2.", 7) ||
           !strncmp(file, "libdl-2.", 8);
}

static int search_library(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct search *search = argument;
    for (int i = 0; is_libc(info->dlpi_name) && i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        struct table table =
            table_of(info->dlpi_addr, (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
        const ElfW(Sym) *found = table.symbols && table.strings && table.hash ? symbol(&table, search->name) : NULL;
        if (found)
            search->found = (void *)(info->dlpi_addr + found->st_value);
    }
    return search->found != NULL;
}

static void *find(const char *name, void **cache)
{
    void *known = __atomic_load_n(cache, __ATOMIC_ACQUIRE);
    if (known)
        return known;
    struct search search = {.name = name};
    dl_iterate_phdr(search_library, &search);
    __atomic_store_n(cache, search.found, __ATOMIC_RELEASE);
    return search.found;
}

dlsym_function libc_dlsym(void)
{
    static void *cache;
    return (dlsym_function)find("dlsym", &cache);
}

dlvsym_function libc_dlvsym(void)
{
    static void *cache;
    return (dlvsym_function)find("dlvsym", &cache);
}

clock_function libc_clock(void)
{
    static void *cache;
    return (clock_function)find("clock_gettime", &cache);
}
