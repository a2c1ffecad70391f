// A parent that cannot be interrupted until its child has ended, which it never does.
// expect: timeout
// limits: wall_s=0.5
#include "hostile.h"
int main(void) {
    for (int i = 0; i < 3; i++) if (!fork()) { if (!vfork()) for (;;) pause(); _exit(0); }
    if (!vfork()) for (;;) pause();
    return 0;
}
