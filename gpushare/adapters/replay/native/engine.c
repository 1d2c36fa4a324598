// Nodes by their numbers, and the losses of rooms and pods, kept until the sequences change. A process calls an
// engine from one thread at a time. Functions that return a status return 0, or -1 without memory.
#include "table.h"
#include "value.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define UNFIT ((int64_t)1 << 62)
#define MILLI 1000
#define WORTH 1024
#define ROOM_WORDS (sizeof(struct room) / sizeof(int64_t))
// What is kept, 100 to 200 bytes each. Tests set other numbers.
#ifndef MOST_ROOMS
#define MOST_ROOMS 500000
#endif
#ifndef MOST_PAIRS
#define MOST_PAIRS 500000
#endif

// The loss by a pod, and the free units of its GPU for a pod with one GPU.
struct loss {
	int64_t loss, free;
};

struct engine {
	struct pod *pods; // all sequences
	int32_t *ends;
	int32_t sequences;
	struct lesson *lessons;
	int32_t lesson_count;
	struct table rooms, pairs; // pairs: a pod and the number of a room
	int64_t *values;	   // of each room; -1: unknown
	int32_t value_space, loss_space;
	struct loss *losses; // of each pair
	struct room **nodes;
	int32_t *numbers; // of the nodes' rooms; -1: unknown
	int32_t node_count;
	struct room *before, *after, *scratch; // space for the largest room
	int64_t largest;
};

static void forget(struct engine *engine)
{
	table_clear(&engine->rooms);
	table_clear(&engine->pairs);
	for (int32_t node = 0; node < engine->node_count; node++)
		engine->numbers[node] = -1;
}

static void forget_lessons(struct engine *engine)
{
	for (int32_t each = 0; each < engine->lesson_count; each++) {
		free(engine->lessons[each].pods);
		free(engine->lessons[each].ends);
		free(engine->lessons[each].several);
	}
	engine->lesson_count = 0;
}

static void *copied(const void *from, size_t size)
{
	void *to = malloc(size ? size : 1);

	// `from` of an empty array may be NULL.
	return to && size ? memcpy(to, from, size) : to;
}

EXPORT struct engine *replay_new(void)
{
	return calloc(1, sizeof(struct engine));
}

EXPORT void replay_free(struct engine *engine)
{
	forget_lessons(engine);
	for (int32_t node = 0; node < engine->node_count; node++)
		free(engine->nodes[node]);
	table_free(&engine->rooms);
	table_free(&engine->pairs);
	free(engine->pods);
	free(engine->ends);
	free(engine->lessons);
	free(engine->values);
	free(engine->losses);
	free(engine->nodes);
	free(engine->numbers);
	free(engine->before);
	free(engine->after);
	free(engine->scratch);
	free(engine);
}

// `ends`: the number of pods up to the end of each sequence.
EXPORT int replay_learn(struct engine *engine, const struct pod *pods, const int32_t *ends, int32_t sequences)
{
	size_t count = sequences ? ends[sequences - 1] : 0;
	struct pod *own_pods = copied(pods, count * sizeof(*pods));
	int32_t *own_ends = copied(ends, sequences * sizeof(*ends));

	if (!own_pods || !own_ends) {
		free(own_pods);
		free(own_ends);
		return -1;
	}
	free(engine->pods);
	free(engine->ends);
	engine->pods = own_pods;
	engine->ends = own_ends;
	engine->sequences = sequences;
	forget_lessons(engine);
	forget(engine);
	return 0;
}

static void lower(int64_t *least, int64_t value)
{
	if (value < *least)
		*least = value;
}

static bool is_same(const struct pod *one, const struct pod *other)
{
	return one->cpu == other->cpu && one->memory == other->memory && one->gpus == other->gpus &&
	       one->units == other->units && one->models == other->models;
}

static void count_several(struct lesson *lesson, const struct pod *pod)
{
	struct pod *found = lesson->several, *end = found + lesson->several_count;

	while (found < end && !is_same(found, pod))
		found++;
	if (found == end) {
		*found = *pod;
		found->amount = 0;
		lesson->several_count++;
	}
	found->amount++;
}

static void select_pods(const struct engine *engine, struct lesson *lesson)
{
	int32_t kept = 0, from = 0;

	lesson->least = (struct pod){.cpu = INT64_MAX, .memory = INT64_MAX, .units = INT64_MAX};
	for (int32_t each = 0; each < engine->sequences; each++) {
		for (; from < engine->ends[each]; from++) {
			const struct pod *pod = engine->pods + from;

			lesson->several_total += pod->gpus > 1;
			if ((pod->models && !(pod->models >> lesson->model & 1)) || pod->gpus > lesson->count)
				continue;
			lesson->pods[kept++] = *pod;
			if (pod->gpus > 1)
				count_several(lesson, pod);
			if (!pod->gpus)
				continue;
			lower(&lesson->least.cpu, pod->cpu);
			lower(&lesson->least.memory, pod->memory);
			lower(&lesson->least.units, pod->units);
		}
		lesson->ends[each] = kept;
	}
}

static const struct lesson *lesson_of(struct engine *engine, const struct room *room)
{
	struct lesson *lessons, *lesson;
	size_t pods = engine->sequences ? engine->ends[engine->sequences - 1] : 0;

	for (int32_t each = 0; each < engine->lesson_count; each++) {
		lesson = engine->lessons + each;
		if (lesson->model == room->model && lesson->count == room->count)
			return lesson;
	}
	lessons = realloc(engine->lessons, (engine->lesson_count + 1) * sizeof(*lessons));
	if (!lessons)
		return NULL;
	engine->lessons = lessons;
	lesson = lessons + engine->lesson_count;
	*lesson = (struct lesson){.model = room->model, .count = room->count, .sequences = engine->sequences};
	lesson->pods = malloc((pods + 1) * sizeof(*lesson->pods));
	lesson->several = malloc((pods + 1) * sizeof(*lesson->several));
	lesson->ends = malloc((engine->sequences + 1) * sizeof(*lesson->ends));
	if (!lesson->pods || !lesson->several || !lesson->ends) {
		free(lesson->pods);
		free(lesson->several);
		free(lesson->ends);
		return NULL;
	}
	select_pods(engine, lesson);
	engine->lesson_count++;
	return lesson;
}

static size_t size_of(int64_t count)
{
	return sizeof(struct room) + (size_t)count * sizeof(int64_t);
}

static int32_t number_of(struct engine *engine, const struct room *room)
{
	int32_t number, known = engine->rooms.count;

	if (known >= engine->value_space) {
		int32_t space = engine->value_space ? engine->value_space * 2 : 1024;
		int64_t *values = realloc(engine->values, space * sizeof(*values));

		if (!values)
			return -1;
		engine->values = values;
		engine->value_space = space;
	}
	number = table_number(&engine->rooms, (const int64_t *)room, ROOM_WORDS + room->count);
	if (number == known)
		engine->values[number] = -1;
	return number;
}

// -1: no memory.
static int64_t value_of(struct engine *engine, const struct room *room)
{
	int32_t number = number_of(engine, room);
	const struct lesson *lesson;

	if (number < 0)
		return -1;
	if (engine->values[number] < 0) {
		lesson = lesson_of(engine, room);
		if (!lesson)
			return -1;
		engine->values[number] = room_value(room, lesson, engine->scratch);
	}
	return engine->values[number];
}

// Rounded down, as in Python.
static int64_t divided(int64_t value, int64_t by)
{
	return value / by - (value % by < 0);
}

static int64_t whole(const struct room *room)
{
	return room->gpu > 1 ? room->gpu : 1;
}

static struct loss best_fit(const struct room *room, const struct pod *pod)
{
	int64_t left = -pod->gpus * pod->units, first = 0;

	for (int64_t each = 0; each < room->count; each++)
		left += room->free[each];
	while (pod->gpus && room->free[first] < pod->units)
		first++;
	return (struct loss){divided(left * WORTH * MILLI, whole(room)), pod->gpus ? room->free[first] : 0};
}

// The GPU at `position`, or the fullest ones if it is negative. False: no memory.
static bool lost(struct engine *engine, const struct pod *pod, int64_t before, int64_t position, int64_t *found)
{
	const struct room *room = engine->before;
	int64_t left;

	memcpy(engine->after, room, size_of(room->count));
	if (position < 0)
		room_take(engine->after, pod);
	else
		room_take_at(engine->after, pod, position);
	left = value_of(engine, engine->after);
	*found = divided((before - left) * MILLI, whole(room) * engine->sequences);
	return left >= 0;
}

static bool least(struct engine *engine, const struct pod *pod, int64_t before, struct loss *loss)
{
	const struct room *room = engine->before;
	int64_t found;

	*loss = (struct loss){UNFIT, 0};
	for (int64_t each = 0; each < room->count; each++) {
		if (room->free[each] < pod->units || (each && room->free[each] == room->free[each - 1]))
			continue;
		if (!lost(engine, pod, before, each, &found))
			return false;
		if (found < loss->loss)
			*loss = (struct loss){found, room->free[each]};
	}
	return true;
}

// Of the room in `before`, which fits. False: no memory.
static bool evaluate(struct engine *engine, const struct pod *pod, struct loss *loss)
{
	int64_t before;

	if (!engine->sequences) {
		*loss = best_fit(engine->before, pod);
		return true;
	}
	before = value_of(engine, engine->before);
	if (before < 0)
		return false;
	loss->free = 0;
	return pod->gpus == 1 ? least(engine, pod, before, loss) : lost(engine, pod, before, -1, &loss->loss);
}

static bool reserve_loss(struct engine *engine)
{
	struct loss *losses;
	int32_t space = engine->loss_space ? engine->loss_space * 2 : 1024;

	if (engine->pairs.count < engine->loss_space)
		return true;
	losses = realloc(engine->losses, space * sizeof(*losses));
	if (!losses)
		return false;
	engine->losses = losses;
	engine->loss_space = space;
	return true;
}

// NULL: no memory.
static const struct loss *loss_of(struct engine *engine, const struct pod *pod, int32_t node)
{
	static const struct loss unfit = {UNFIT, 0};
	const struct room *room = node >= 0 && node < engine->node_count ? engine->nodes[node] : NULL;
	int32_t known, pair;

	if (!room || !room_fits(room, pod))
		return &unfit;
	if (engine->rooms.count >= MOST_ROOMS)
		forget(engine);
	if (engine->pairs.count >= MOST_PAIRS)
		table_clear(&engine->pairs);
	if (engine->numbers[node] < 0)
		engine->numbers[node] = number_of(engine, room);
	known = engine->pairs.count;
	if (engine->numbers[node] < 0 || !reserve_loss(engine))
		return NULL;
	const int64_t key[] = {engine->numbers[node], pod->cpu,	  pod->memory,
			       pod->gpus,	      pod->units, (int64_t)pod->models};
	pair = table_number(&engine->pairs, key, sizeof(key) / sizeof(*key));
	if (pair < 0)
		return NULL;
	if (pair == known) {
		memcpy(engine->before, room, size_of(room->count));
		if (!evaluate(engine, pod, engine->losses + pair)) {
			forget(engine);
			return NULL;
		}
	}
	return engine->losses + pair;
}

EXPORT int replay_losses(struct engine *engine, const struct pod *pod, const int32_t *nodes, int32_t count,
			 int64_t *losses)
{
	for (int32_t each = 0; each < count; each++) {
		const struct loss *loss = loss_of(engine, pod, nodes[each]);

		if (!loss)
			return -1;
		losses[each] = loss->loss;
	}
	return 0;
}

// The free units of the GPU for a pod with one GPU.
EXPORT int replay_gpu(struct engine *engine, const struct pod *pod, int32_t node, int64_t *free)
{
	const struct loss *loss = loss_of(engine, pod, node);

	if (!loss)
		return -1;
	*free = loss->free;
	return 0;
}

static bool reserve_node(struct engine *engine, int32_t node, int64_t count)
{
	struct room **spaces[] = {&engine->before, &engine->after, &engine->scratch};

	for (size_t each = 0; count > engine->largest && each < sizeof(spaces) / sizeof(*spaces); each++) {
		struct room *larger = realloc(*spaces[each], size_of(count));

		if (!larger)
			return false;
		*spaces[each] = larger;
	}
	if (count > engine->largest)
		engine->largest = count;
	if (node >= engine->node_count) {
		int32_t nodes = node * 2 + 64;
		struct room **rooms = realloc(engine->nodes, nodes * sizeof(*rooms));

		if (!rooms)
			return false;
		engine->nodes = rooms;
		int32_t *numbers = realloc(engine->numbers, nodes * sizeof(*numbers));

		if (!numbers)
			return false;
		engine->numbers = numbers;
		for (; engine->node_count < nodes; engine->node_count++) {
			engine->nodes[engine->node_count] = NULL;
			engine->numbers[engine->node_count] = -1;
		}
	}
	return true;
}

// Adds or replaces a node, whose GPUs are in ascending order.
EXPORT int replay_put(struct engine *engine, int32_t node, const struct room *room)
{
	struct room *own;

	// A room without GPUs needs space, too.
	if (!reserve_node(engine, node, room->count + 1))
		return -1;
	own = copied(room, size_of(room->count));
	if (!own)
		return -1;
	free(engine->nodes[node]);
	engine->nodes[node] = own;
	engine->numbers[node] = -1;
	return 0;
}

EXPORT void replay_remove(struct engine *engine, int32_t node)
{
	if (node < engine->node_count) {
		free(engine->nodes[node]);
		engine->nodes[node] = NULL;
	}
}
