/* Prints the layout of the region as the library has it. */
#include <stddef.h>
#include <stdio.h>

#include "region.h"

static void say(const char *name, unsigned long long number) { printf("%s %llu\n", name, number); }

int main(void)
{
    say("magic", REGION_MAGIC);
    say("version", REGION_VERSION);
    say("size", sizeof(struct region));
    say("sequence", offsetof(struct region, sequence));
    say("lock", offsetof(struct region, lock));
    say("cards", offsetof(struct region, cards));
    say("card", sizeof(struct region_card));
    say("max_cards", MAX_CARDS);
    say("launches", offsetof(struct region, launches));
    say("launch", sizeof(struct region_launch));
    say("slots", offsetof(struct region, slots));
    say("slot", sizeof(struct region_slot));
    say("slot_count", REGION_SLOTS);
    say("measures", offsetof(struct region, measures));
    say("measure", sizeof(struct region_measure));
    return 0;
}
