# Calls that belong to whoever runs the machine.
# expect: ok
import ctypes

from hostile import call, must_fail

zero = ctypes.create_string_buffer(256)
for name, number, *arguments in (
    ("bpf", 321, 0, zero, 72), ("perf_event_open", 298, zero, 0, -1, -1, 0), ("userfaultfd", 323, 0),
    ("io_uring_setup", 425, 8, zero), ("io_uring_register", 427, 0, 0, 0, 0), ("fanotify_init", 300, 0, 0),
    ("open_by_handle_at", 304, -100, zero, 0), ("init_module", 175, zero, 9, b""), ("finit_module", 313, 0, b"", 0),
    ("kexec_load", 246, 0, 0, 0, 0), ("reboot", 169, 0xFEE1DEAD, 672274793, 0, 0), ("swapon", 167, b"/work", 0),
    ("sethostname", 170, b"x", 1), ("settimeofday", 164, zero, 0), ("clock_settime", 227, 0, zero),
    ("acct", 163, b"/work/a"), ("syslog", 103, 3, zero, 99), ("iopl", 172, 3), ("ioperm", 173, 0, 9, 1),
    ("quotactl", 179, 0, b"/", 0, zero), ("setuid", 105, 0), ("setgid", 106, 0), ("setgroups", 116, 1, zero),
    ("setns", 308, 0, 0),     ("lookup_dcookie", 212, 0, zero, 99), ("vhangup", 153),
    ("nfsservctl", 180, 0, 0, 0), ("inotify_init1", 294, 0),
    ("inotify_init", 253),
):  # fmt: skip
    must_fail(name, call, number, *arguments)
