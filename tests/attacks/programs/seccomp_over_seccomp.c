// A filter of its own that answers the calls of programs with set bits, and speculation switched off for others.
// expect: ok
#include "hostile.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
int main(void) {
    struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog program = {1, all};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);  // allowed, and only ever narrows
    MUST_FAIL(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    MUST_FAIL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
    MUST_FAIL(syscall(SYS_socket, 40, 1, 0));
    char room[120] = {0};
    MUST_FAIL(syscall(425, 8, room));
    return 0;
}
