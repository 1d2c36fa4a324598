/* FAKE, for tests. Reads the state file: one value per line, words separated by spaces, text until the end. */
#define _GNU_SOURCE
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct state buffers[2];
static struct state *current = &buffers[0];
static struct stat seen;
static u32 verdict = DRIVER_NOT_LOADED;

const struct state *state_now(void) { return current; }

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static bool text_field(struct card *card, const char *key, const char *value)
{
    char *target = !strcmp(key, "uuid")     ? card->uuid
                   : !strcmp(key, "name")   ? card->name
                   : !strcmp(key, "pci")    ? card->pci
                   : !strcmp(key, "serial") ? card->serial
                                            : NULL;
    if (!target)
        return false;
    snprintf(target, TEXT, "%s", value);
    return true;
}

static bool number_field(struct card *card, const char *key, const char *value)
{
    char *end;
    long long number = strtoll(value, &end, 10);
    if (*value == '\0' || *end != '\0')
        return false;
#define FIELD(name)              \
    if (!strcmp(key, #name)) {   \
        card->name = number;     \
        return true;             \
    }
    NUMBERS(FIELD)
#undef FIELD
    return false;
}

static bool process_line(struct card *card, const char *value)
{
    if (card->process_count == MAX_PROCESSES)
        return false;
    struct process *p = &card->processes[card->process_count++];
    int kind;
    if (sscanf(value, "%u %lld %u %u %u %u %d", &p->pid, &p->used_mib, &p->sm, &p->memory, &p->encoder,
               &p->decoder, &kind) != 7)
        return false;
    p->kind = (enum kind)kind;
    return kind >= COMPUTE && kind <= MPS;
}

static bool link_line(struct card *card, const char *value)
{
    if (card->link_count == MAX_LINKS)
        return false;
    struct link *link = &card->links[card->link_count++];
    return sscanf(value, "%95s %u", link->pci, &link->type) == 2;
}

static bool level_line(struct card *card, const char *value)
{
    u32 other, level;
    if (sscanf(value, "%u %u", &other, &level) != 2 || other >= MAX_CARDS)
        return false;
    card->level[other] = level;
    return true;
}

static bool card_line(struct card *card, const char *key, const char *value)
{
    if (!strcmp(key, "process"))
        return process_line(card, value);
    if (!strcmp(key, "link"))
        return link_line(card, value);
    if (!strcmp(key, "level"))
        return level_line(card, value);
    return text_field(card, key, value) || number_field(card, key, value);
}

static bool new_card(struct state *state)
{
    if (state->card_count == MAX_CARDS)
        return false;
    struct card *card = &state->cards[state->card_count++];
#define FIELD(name) card->name = ABSENT;
    NUMBERS(FIELD)
#undef FIELD
    return true;
}

static bool failure_line(struct state *state, const char *value)
{
    if (state->failure_count == MAX_FAILURES)
        return false;
    struct failure *f = &state->failures[state->failure_count++];
    return sscanf(value, "%95s %u %95s", f->function, &f->code, f->uuid) == 3;
}

static bool event_line(struct state *state, const char *value)
{
    if (state->event_count == MAX_EVENTS)
        return false;
    struct event *e = &state->events[state->event_count++];
    return sscanf(value, "%llu %95s %llu %llu", &e->number, e->uuid, &e->type, &e->data) == 4;
}

static bool driver_line(struct state *state, const char *key, const char *value)
{
    if (!strcmp(key, "driver"))
        return snprintf(state->driver, TEXT, "%s", value) > 0;
    if (!strcmp(key, "nvml"))
        return snprintf(state->nvml, TEXT, "%s", value) > 0;
    if (!strcmp(key, "cuda"))
        return (state->cuda = atoi(value)) > 0;
    if (!strcmp(key, "v1_counts_reserve"))
        return (state->v1_counts_reserve = atoi(value)) || !strcmp(value, "0");
    if (!strcmp(key, "recovery_action_known"))
        return (state->recovery_action_known = atoi(value)) || !strcmp(value, "0");
    if (!strcmp(key, "loaded"))
        return (state->loaded = atoi(value)) || !strcmp(value, "0");
    if (!strcmp(key, "hang"))
        return (state->hang = atoi(value)) || !strcmp(value, "0");
    if (!strcmp(key, "fail"))
        return failure_line(state, value);
    if (!strcmp(key, "event"))
        return event_line(state, value);
    return !strcmp(key, "card") && new_card(state);
}

static bool state_line(struct state *state, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *value = strchr(line, ' ');
    if (!value)
        return *line == '\0';
    *value++ = '\0';
    if (state->card_count && strcmp(line, "card"))
        return card_line(&state->cards[state->card_count - 1], line, value);
    return driver_line(state, line, value);
}

static u32 parse(FILE *file, const char *path, struct state *state)
{
    char line[512];
    memset(state, 0, sizeof *state);
    for (int number = 1; fgets(line, sizeof line, file); number++)
        if (!state_line(state, line)) {
            fprintf(stderr, "stub NVML: %s:%d makes no sense: %s\n", path, number, line);
            return UNKNOWN;
        }
    return OK;
}

const char *state_path(void)
{
    const char *named = getenv("STUB_NVML");
    return named ? named : STUB_STATE;
}

u32 state_refresh(void)
{
    const char *path = state_path();
    struct stat found = {0};
    if (stat(path, &found) == 0 && same_file(&found, &seen))
        return verdict;
    FILE *file = fopen(path, "re");
    if (!file) {
        seen = (struct stat){0};
        return verdict = DRIVER_NOT_LOADED;
    }
    struct state *other = current == &buffers[0] ? &buffers[1] : &buffers[0];
    fstat(fileno(file), &seen);
    verdict = parse(file, path, other);
    if (verdict == OK)
        current = other;
    fclose(file);
    return verdict;
}
