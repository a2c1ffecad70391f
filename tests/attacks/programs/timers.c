// Timers and queued signals without end.
// expect: ok
#include "hostile.h"
#include <time.h>
int main(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    signal(SIGRTMIN, SIG_IGN);
    timer_t timer;
    struct itimerspec fast = {{0, 1000000}, {0, 1000000}};
    for (int i = 0; i < 100000 && !timer_create(CLOCK_MONOTONIC, &event, &timer); i++) if (i < 100) timer_settime(timer, 0, &fast, 0);
    sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0);
    union sigval value = {0};
    for (int i = 0; i < 100000 && !sigqueue(getpid(), SIGRTMIN + 1, value); i++) ;
    return 0;
}
