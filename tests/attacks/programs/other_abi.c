// System calls of 32-bit programs, by interrupt, and of x32, which a careless filter does not know.
// expect: ok killed
// layers: all
#include "hostile.h"
int main(void) {
    MUST_FAIL(syscall(0x40000000 + 41, 2, 1, 0));
    MUST_FAIL(syscall(0x40000000 + 425, 8, 0));
#ifdef __x86_64__
    long result, a[] = {2, 1, 0};
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(359), "b"(2L), "c"(1L), "d"(0L) : "memory");
    if ((int)result >= 0) puts("BREACH socket by interrupt");
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(102), "b"(1L), "c"(a) : "memory");
    if ((int)result >= 0) puts("BREACH socketcall by interrupt");
#endif
    return 0;
}
