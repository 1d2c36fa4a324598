/* Reads the limit files in the arguments with the code of the library; prints the number of GPUs in each, or -1. */
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
