// Raises hard limits, of itself and of others.
// expect: ok
#include "hostile.h"
int main(void) {
    int which[] = {RLIMIT_AS, RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_CORE};
    for (int i = 0; i < 6; i++) {
        struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}, now;
        MUST_FAIL(setrlimit(which[i], &all));
        getrlimit(which[i], &now);
        now.rlim_max++;
        MUST_FAIL(setrlimit(which[i], &now));
        MUST_FAIL(prlimit(1, which[i], &all, 0));
    }
    return 0;
}
