// Arguments larger than a program can have, in a tree of programs that start themselves.
// expect: ok
// limits: processes=32
#include "hostile.h"
int main(int argc, char **argv) {
    if (argc > 1) return 0;
    char *big = malloc(130000); memset(big, 'x', 129999); big[129999] = 0;
    char *many[200]; many[0] = argv[0]; for (int i = 1; i < 199; i++) many[i] = big; many[199] = 0;
    MUST_FAIL(execv("/proc/self/exe", many));
    return 0;
}
