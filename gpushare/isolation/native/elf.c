/* Finds functions in the symbol table of the loaded libc (libdl before glibc 2.34). dlvsym cannot be used for that:
   the dynamic linker binds a versioned reference to the unversioned function that this library exports.

   This code calls no other library: AddressSanitizer and ThreadSanitizer look functions up before they are initialised,
   and replace those of libc, dl_iterate_phdr and strrchr too. */
#define _GNU_SOURCE
#include "elf.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct table {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash;
};

static bool starts(const char *text, const char *with, bool and_ends)
{
    for (; *with; with++, text++)
        if (*text != *with)
            return false;
    return !and_ends || !*text;
}

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
            starts(table->strings + candidate->st_name, name, true))
            return candidate;
        if (chain[i - first] & 1)
            break;
    }
    return NULL;
}

static bool is_libc(const char *path)
{
    const char *file = path;
    for (const char *at = path; *at; at++)
        if (*at == '/')
            file = at + 1;
    return starts(file, "libc.so.", false) || starts(file, "libdl.so.", false) || starts(file, "libc-2.", false) ||
           starts(file, "libdl-2.", false);
}

static void *search(const char *name)
{
    /* Libraries that a program closes leave the list, but the C library comes before them. */
    for (const struct link_map *library = _r_debug.r_map; library; library = library->l_next) {
        struct table table = is_libc(library->l_name) ? table_of(library->l_addr, library->l_ld) : (struct table){0};
        const ElfW(Sym) *found = table.symbols && table.strings && table.hash ? symbol(&table, name) : NULL;
        if (found)
            return (void *)(library->l_addr + found->st_value);
    }
    return NULL;
}

static void *find(const char *name, void **cache)
{
    void *found = __atomic_load_n(cache, __ATOMIC_ACQUIRE);
    if (!found) {
        found = search(name);
        __atomic_store_n(cache, found, __ATOMIC_RELEASE);
    }
    return found;
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
