#include "table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const int64_t *key, size_t size)
{
	uint64_t hash = size;

	for (size_t i = 0; i < size; i++) {
		hash = (hash ^ (uint64_t)key[i]) * 0x9E3779B97F4A7C15u;
		hash ^= hash >> 29;
	}
	return hash ^ hash >> 32;
}

static bool grow(void **array, size_t count, size_t size)
{
	void *larger = realloc(*array, count * size);

	if (larger)
		*array = larger;
	return larger;
}

static void insert(struct table *table, int32_t number)
{
	size_t start = table->starts[number], size = table->starts[number + 1] - start;
	size_t slot = hash_of(table->words + start, size) & (table->width - 1);

	while (table->slots[slot] >= 0)
		slot = (slot + 1) & (table->width - 1);
	table->slots[slot] = number;
}

static bool widen(struct table *table)
{
	size_t width = table->width ? table->width * 2 : 1024;

	if (!grow((void **)&table->slots, width, sizeof(*table->slots)))
		return false;
	table->width = width;
	memset(table->slots, -1, width * sizeof(*table->slots));
	for (int32_t number = 0; number < table->count; number++)
		insert(table, number);
	return true;
}

static bool reserve(struct table *table, size_t size)
{
	if ((size_t)table->count * 2 >= table->width && !widen(table))
		return false;
	if (table->count + 1 >= table->most) {
		int32_t most = table->most ? table->most * 2 : 1024;

		if (!grow((void **)&table->starts, most, sizeof(*table->starts)))
			return false;
		table->most = most;
		table->starts[0] = 0;
	}
	if (table->used + size > table->space) {
		size_t space = (table->used + size) * 2;

		if (!grow((void **)&table->words, space, sizeof(*table->words)))
			return false;
		table->space = space;
	}
	return true;
}

static bool equal(const struct table *table, int32_t number, const int64_t *key, size_t size)
{
	size_t start = table->starts[number];

	return table->starts[number + 1] - start == size &&
	       !memcmp(table->words + start, key, size * sizeof(*key));
}

int32_t table_number(struct table *table, const int64_t *key, size_t size)
{
	size_t slot;

	if (!reserve(table, size))
		return -1;
	slot = hash_of(key, size) & (table->width - 1);
	for (; table->slots[slot] >= 0; slot = (slot + 1) & (table->width - 1))
		if (equal(table, table->slots[slot], key, size))
			return table->slots[slot];
	memcpy(table->words + table->used, key, size * sizeof(*key));
	table->used += size;
	table->slots[slot] = table->count;
	table->starts[table->count + 1] = table->used;
	return table->count++;
}

const int64_t *table_key(const struct table *table, int32_t number)
{
	return table->words + table->starts[number];
}

void table_clear(struct table *table)
{
	table->used = 0;
	table->count = 0;
	if (table->width)
		memset(table->slots, -1, table->width * sizeof(*table->slots));
}

void table_free(struct table *table)
{
	free(table->words);
	free(table->starts);
	free(table->slots);
}
