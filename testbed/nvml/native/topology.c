/* FAKE, for tests. Links between GPUs. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "session.h"

API u32 nvmlDeviceGetTopologyCommonAncestor(const void *device, const void *other, u32 *level)
{
    CALL_ON(device);
    const struct state *state = state_now();
    int position = session_index(other);
    if (position < 0 || !level)
        return INVALID_ARGUMENT;
    for (int i = 0; i < state->card_count; i++)
        if (session_handle_of(state->cards[i].uuid) == other) {
            *level = card->level[i];
            return OK;
        }
    return GPU_IS_LOST;
}

/* NOT_SUPPORTED for a GPU without NVLink; a number beyond the last link is an invalid argument. */
static u32 find_link(const struct card *card, u32 number, const struct link **link)
{
    if (card->nvlinks == ABSENT || card->nvlinks == 0)
        return NOT_SUPPORTED;
    if (number >= (u32)card->nvlinks)
        return INVALID_ARGUMENT;
    *link = number < (u32)card->link_count ? &card->links[number] : NULL;
    return OK;
}

API u32 nvmlDeviceGetNvLinkState(const void *device, u32 number, u32 *active)
{
    CALL_ON(device);
    const struct link *link;
    u32 verdict = active ? find_link(card, number, &link) : INVALID_ARGUMENT;
    if (verdict == OK)
        *active = link != NULL;
    return verdict;
}

API u32 nvmlDeviceGetNvLinkRemoteDeviceType(const void *device, u32 number, u32 *type)
{
    CALL_ON(device);
    const struct link *link;
    u32 verdict = find_link(card, number, &link);
    if (verdict == OK && !link)
        verdict = NOT_SUPPORTED;
    if (verdict == OK)
        *type = link->type;
    return verdict;
}

API u32 nvmlDeviceGetNvLinkRemotePciInfo_v2(const void *device, u32 number, struct pci_info *pci)
{
    CALL_ON(device);
    const struct link *link;
    u32 verdict = find_link(card, number, &link);
    if (verdict == OK && !link)
        verdict = NOT_SUPPORTED;
    if (verdict == OK) {
        memset(pci, 0, sizeof *pci);
        snprintf(pci->bus_id, sizeof pci->bus_id, "%.31s", link->pci);
    }
    return verdict;
}

API u32 nvmlDeviceGetNvLinkRemotePciInfo(const void *device, u32 number, struct pci_info *pci)
{
    return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, number, pci);
}
