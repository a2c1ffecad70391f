// Shared segments that nobody is attached to, full of data.
// expect: out_of_memory
// limits: memory_bytes=100M
#include "hostile.h"
#include <sys/shm.h>
int main(void) {
    for (int i = 0; i < 20; i++) {
        int id = shmget(IPC_PRIVATE, 16 << 20, 0600);
        char *p = id < 0 ? (void *)-1 : shmat(id, 0, 0);
        if (p == (void *)-1) continue;
        memset(p, 1, 16 << 20);
        shmdt(p);
    }
    sleep(5);
    return 0;
}
