// What a room is worth to the sequences. gpushare/scheduling/placement/replay/value.py is the same in Python.
#pragma once
#include <stdbool.h>
#include <stdint.h>

// A pod of a sequence. `amount`: its units on all GPUs times their worth; 0 without GPUs.
struct pod {
	int64_t cpu, memory, gpus, units, amount;
	uint64_t models;
};

// What is free on a node, followed by `count` numbers: the free units of each GPU, ascending.
struct room {
	int64_t cpu, memory, model, gpu, count;
	int64_t free[];
};

// The pods of all sequences that nodes of one model with so many GPUs might take. `ends`: of each sequence.
// A node with less than `least` cannot take any of its pods with GPUs. `several`: each different pod with several
// GPUs, whose `amount` is how often it is in the sequences; `several_total`: all of them, for any node.
struct lesson {
	int64_t model, count;
	struct pod *pods;
	int32_t *ends;
	int32_t sequences;
	struct pod least;
	struct pod *several;
	int32_t several_count;
	int64_t several_total;
};

bool room_fits(const struct room *room, const struct pod *pod);
// Takes units from the fullest GPUs that fit.
void room_take(struct room *room, const struct pod *pod);
// Takes units from the GPU at this position.
void room_take_at(struct room *room, const struct pod *pod, int64_t position);
// `scratch` has space for a copy of the room.
int64_t room_value(const struct room *room, const struct lesson *lesson, struct room *scratch);
