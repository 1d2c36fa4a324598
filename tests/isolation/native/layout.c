/* Prints the layout of the region in the library. */
#include <stddef.h>
#include <stdio.h>

#include "region.h"

static void print(const char *name, unsigned long long number) { printf("%s %llu\n", name, number); }

int main(void)
{
    print("magic", REGION_MAGIC);
    print("version", REGION_VERSION);
    print("size", sizeof(struct region));
    print("sequence", offsetof(struct region, sequence));
    print("lock", offsetof(struct region, lock));
    print("sizes", offsetof(struct region, sizes));
    print("reached", offsetof(struct region, reached));
    print("crowded", offsetof(struct region, crowded));
    print("cards", offsetof(struct region, cards));
    print("card", sizeof(struct region_card));
    print("max_cards", MAX_CARDS);
    print("launches", offsetof(struct region, launches));
    print("launch", sizeof(struct region_launch));
    print("kinds", LAUNCH_KINDS);
    print("prices", offsetof(struct region_launch, prices));
    print("work", offsetof(struct region_launch, work));
    print("slots", offsetof(struct region, slots));
    print("slot", sizeof(struct region_slot));
    print("managed", offsetof(struct region_slot, managed));
    print("slot_count", REGION_SLOTS);
    print("measures", offsetof(struct region, measures));
    print("measure", sizeof(struct region_measure));
    return 0;
}
