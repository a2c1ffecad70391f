// Opens a socket without the system call of that name.
// expect: ok
// layers: all
#include "hostile.h"
int main(void) {
    char parameters[120] = {0};
    MUST_FAIL(syscall(425, 8, parameters));
    MUST_FAIL(syscall(426, 0, 1, 1, 0, 0, 0));
    return 0;
}
