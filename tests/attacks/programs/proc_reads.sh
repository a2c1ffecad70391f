# What /proc tells about the init, the host and its kernel.
# expect: ok
for f in environ maps mem fd/0 fd/3 root/etc/passwd cwd/x exe stack syscall auxv io cmdline ns/net; do
    [ -n "$(head -c 1 /proc/1/$f 2>/dev/null | tr '\0' x)" ] && echo BREACH 1/$f; done
for f in kcore kmsg cmdline keys timer_list partitions diskstats vmallocinfo slabinfo pagetypeinfo sched_debug; do
    [ -n "$(head -c 1 /proc/$f 2>/dev/null | tr '\0' x)" ] && echo BREACH $f; done
grep -v '^0000000000000000' /proc/kallsyms 2>/dev/null | head -n 1 | sed 's/^/BREACH /'
ls /proc | grep -E '^[0-9]+$' | while read -r p; do
    case $(cat /proc/$p/comm 2>/dev/null) in bash|ls|grep|cat|'') ;; *) echo BREACH "$(cat /proc/$p/comm)";; esac; done; exit 0
