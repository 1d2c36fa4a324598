// A hash table from the bytes of a key to a number from 0 on, in the order of insertion.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct table {
	int64_t *words; // the keys, one after the other
	size_t used, space;
	size_t *starts; // of each key, and the end of the last one
	int32_t count, most;
	int32_t *slots; // -1: free; a power of two
	size_t width;
};

// The number of a key of `size` words; it is new if it equals the former `count`. -1: no memory.
int32_t table_number(struct table *table, const int64_t *key, size_t size);
const int64_t *table_key(const struct table *table, int32_t number);
void table_clear(struct table *table);
void table_free(struct table *table);
