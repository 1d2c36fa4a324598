#include "value.h"

#include <string.h>

#define SEVERAL 41

bool room_fits(const struct room *room, const struct pod *pod)
{
	if (room->cpu < pod->cpu || room->memory < pod->memory)
		return false;
	if (pod->models && !(pod->models >> room->model & 1))
		return false;
	// The GPUs are in ascending order: the last ones decide.
	return !pod->gpus || (pod->gpus <= room->count && room->free[room->count - pod->gpus] >= pod->units);
}

// Moves the number at `from` down to its place.
static void settle(int64_t *free, int64_t from)
{
	int64_t value = free[from];

	for (; from > 0 && free[from - 1] > value; from--)
		free[from] = free[from - 1];
	free[from] = value;
}

static void take_rest(struct room *room, const struct pod *pod)
{
	room->cpu -= pod->cpu;
	room->memory -= pod->memory;
}

void room_take_at(struct room *room, const struct pod *pod, int64_t position)
{
	take_rest(room, pod);
	room->free[position] -= pod->units;
	settle(room->free, position);
}

void room_take(struct room *room, const struct pod *pod)
{
	int64_t first = 0;

	take_rest(room, pod);
	if (!pod->gpus)
		return;
	while (room->free[first] < pod->units)
		first++;
	for (int64_t each = first; each < first + pod->gpus; each++) {
		room->free[each] -= pod->units;
		settle(room->free, each);
	}
}

// Whether pods with GPUs may still fit.
static bool usable(const struct room *room, const struct pod *least)
{
	return room->free[room->count - 1] >= least->units && room->cpu >= least->cpu &&
	       room->memory >= least->memory;
}

static int64_t used(struct room *room, const struct pod *pod, const struct pod *end, const struct pod *least)
{
	int64_t total = 0;

	for (; pod < end && usable(room, least); pod++) {
		if (room->cpu < pod->cpu || room->memory < pod->memory)
			continue;
		if (pod->gpus && room->free[room->count - pod->gpus] < pod->units)
			continue;
		room_take(room, pod);
		total += pod->amount;
	}
	return total;
}

// The free units on GPUs that a pod with several GPUs could use, on average of these pods.
static int64_t usable_by_several(const struct room *room, const struct lesson *lesson)
{
	int64_t total = 0;

	for (int32_t each = 0; each < lesson->several_count; each++) {
		const struct pod *pod = lesson->several + each;

		if (!room_fits(room, pod))
			continue;
		for (int64_t gpu = room->count; gpu-- && room->free[gpu] >= pod->units;)
			total += pod->amount * room->free[gpu];
	}
	return total ? total / lesson->several_total : 0;
}

int64_t room_value(const struct room *room, const struct lesson *lesson, struct room *scratch)
{
	size_t size = sizeof(*room) + (size_t)room->count * sizeof(int64_t);
	int64_t total;
	int32_t start = 0;

	if (!room->count || !usable(room, &lesson->least))
		return 0;
	total = SEVERAL * lesson->sequences * usable_by_several(room, lesson);
	for (int32_t each = 0; each < lesson->sequences; each++) {
		memcpy(scratch, room, size);
		total += used(scratch, lesson->pods + start, lesson->pods + lesson->ends[each], &lesson->least);
		start = lesson->ends[each];
	}
	return total;
}
