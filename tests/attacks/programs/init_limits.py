# The limits, the affinity and the io class of the init.
# expect: ok
import resource

from hostile import call, must_fail

for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_CPU):
    must_fail("prlimit", lambda n=limit: resource.prlimit(1, n, (1, 1)) and 0)
must_fail("ioprio", call, 251, 1, 1, 3 << 13)
must_fail("migrate_pages", call, 256, 1, 0, 0, 0)
must_fail("move_pages", call, 279, 1, 0, 0, 0, 0, 0)
