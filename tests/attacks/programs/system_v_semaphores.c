// Arrays of semaphores.
// expect: out_of_memory
// limits: memory_bytes=64M
#include "hostile.h"
#include <sys/sem.h>
int main(void) {
    for (int i = 0; i < 32000; i++) if (semget(IPC_PRIVATE, 250, 0600) < 0) break;
    sleep(5);
    return 0;
}
