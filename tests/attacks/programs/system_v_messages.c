// Message queues, full.
// expect: out_of_memory
// limits: memory_bytes=64M
#include "hostile.h"
#include <sys/msg.h>
int main(void) {
    static struct { long type; char text[8000]; } message = {1, {0}};
    for (int i = 0; i < 32000; i++) {
        int id = msgget(IPC_PRIVATE, 0600);
        if (id < 0) break;
        while (!msgsnd(id, &message, sizeof message.text, IPC_NOWAIT)) ;
    }
    sleep(5);
    return 0;
}
