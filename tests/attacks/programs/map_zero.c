// Reserves address space without end.
// expect: nonzero
#include "hostile.h"
int main(void) {
    long total = 0;
    while (mmap(0, 64L << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED) total += 64;
    if (total > 4096) printf("BREACH %ld MiB\n", total);
    MUST_FAIL(syscall(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    return 1;
}
