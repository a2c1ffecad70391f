// Dies of a signal at once.
// expect: killed
#include "hostile.h"
int main(void) { *(volatile int *)0 = 1; return 0; }
