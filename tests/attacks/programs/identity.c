// Becomes root, in every way a process can change who it is.
// expect: ok
#include "hostile.h"
#include <linux/capability.h>
#include <sys/fsuid.h>
int main(void) {
    MUST_FAIL(setresuid(0, 0, 0)); MUST_FAIL(setresgid(0, 0, 0)); MUST_FAIL(setreuid(0, 0)); MUST_FAIL(seteuid(0));
    setfsuid(0); if (setfsuid(-1) == 0) puts("BREACH setfsuid");
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
    MUST_FAIL(syscall(SYS_capset, &header, data));
    execl("/bin/sh", "sh", "-c", "chmod 4755 /bin/sh 2>/dev/null; [ $(id -u) = 1000 ] || echo BREACH; exit 0", NULL);
    return 1;
}
