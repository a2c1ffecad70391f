// Catches the signal that says that its CPU time is over, and goes on.
// expect: timeout
// limits: cpu_s=1 wall_s=20
#include "hostile.h"
static void ignore(int n) { (void)n; }
int main(void) { signal(SIGXCPU, ignore); signal(SIGTERM, ignore); for (;;) ; }
