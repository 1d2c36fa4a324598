/* Reads limit files as the library does, each named by an argument; prints how many cards each gives. */
#include <stdio.h>

#include "limit.h"

int main(int count, char **paths)
{
    for (int i = 1; i < count; i++) {
        struct limits limits;
        const char *why;
        printf("%d\n", limits_read(paths[i], &limits, &why) ? limits.count : -1);
    }
    return 0;
}
