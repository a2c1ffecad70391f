// Maps and touches memory of every kind until nothing is given any more.
// expect: out_of_memory nonzero
// limits: memory_bytes=100M
#include "hostile.h"
int main(void) {
    int flags[] = {MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED};
    for (int i = 0;; i++) {
        char *p = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, flags[i % 3], -1, 0);
        if (p != MAP_FAILED) memset(p, 1, 4 << 20);
        else if (i > 1000) return 1;
    }
}
