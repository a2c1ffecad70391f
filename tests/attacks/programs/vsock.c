// Talks to the hypervisor, and to other things no network namespace divides.
// expect: ok
// layers: all
#include "hostile.h"
#include <sys/socket.h>
int main(void) {
    int families[] = {AF_VSOCK, AF_ALG, AF_BLUETOOTH, AF_NFC, AF_CAN, AF_TIPC, AF_RDS, AF_QIPCRTR, AF_XDP, AF_SMC, AF_KCM, AF_PACKET, AF_KEY};
    for (unsigned i = 0; i < sizeof families / sizeof *families; i++)
        for (int type = 1; type <= 5; type++) MUST_FAIL(socket(families[i], type, 0));
    for (unsigned i = 0; i < sizeof families / sizeof *families; i++) { int two[2]; MUST_FAIL(socketpair(families[i], 1, 0, two)); }
    return 0;
}
