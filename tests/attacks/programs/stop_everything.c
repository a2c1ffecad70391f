// Stops every process it can see, in a loop, so that nobody can go on.
// expect: timeout
// limits: wall_s=0.6
#include "hostile.h"
int main(void) {
    if (!fork()) { setsid(); for (;;) { kill(-1, SIGSTOP); usleep(1000); } }
    for (;;) { kill(1, SIGSTOP); kill(getppid(), SIGSTOP); usleep(1000); }
}
