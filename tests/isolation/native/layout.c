/* Prints the layout of the region as the library has it. */
#include <stddef.h>
#include <stdio.h>

#include "region.h"

int main(void)
{
    printf("{\"size\": %zu, \"sequence\": %zu, \"lock\": %zu, \"cards\": %zu, \"card\": %zu, \"slots\": %zu, "
           "\"slot\": %zu, \"slot_count\": %d, \"max_cards\": %d, \"magic\": %llu, \"version\": %d}\n",
           sizeof(struct region), offsetof(struct region, sequence), offsetof(struct region, lock),
           offsetof(struct region, cards), sizeof(struct region_card), offsetof(struct region, slots),
           sizeof(struct region_slot), REGION_SLOTS, MAX_CARDS, (unsigned long long)REGION_MAGIC, REGION_VERSION);
    return 0;
}
