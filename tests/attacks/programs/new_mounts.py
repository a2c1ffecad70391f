# Mounts by the calls that ordinary programs do not use yet.
# expect: ok
from hostile import call, libc, must_fail

must_fail("fsopen", call, 430, b"tmpfs", 0)
must_fail("open_tree", call, 428, -100, b"/", 1)
must_fail("open_tree of all", call, 428, -100, b"/", 0x8001)
must_fail("fspick", call, 433, -100, b"/work", 0)
must_fail("mount_setattr", call, 442, -100, b"/", 0, bytes(32), 32)
must_fail("move_mount", call, 429, -100, b"/work", -100, b"/tmp", 0)
must_fail("mount", libc.mount, b"x", b"/tmp", b"tmpfs", 0, None)
must_fail("remount", libc.mount, None, b"/", None, 0x20 | 0x1000, None)
must_fail("umount", libc.umount2, b"/work", 2)
must_fail("umount of proc", libc.umount2, b"/proc", 2)
must_fail("pivot_root", call, 155, b"/tmp", b"/tmp")
must_fail("chroot", libc.chroot, b"/tmp")
