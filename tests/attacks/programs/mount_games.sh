# Mounts, namespaces and other roots, by the ordinary programs.
# expect: ok
t() { "$@" >/dev/null 2>&1 && echo BREACH "$@"; }
t mount -t tmpfs x /tmp; t mount --bind / /tmp; t mount -o remount,rw /; t umount /proc; t umount -l /work; t mount -t proc x /tmp
t unshare -U true; t unshare -r true; t unshare -m true; t unshare -n true; t unshare -p -f true; t chroot / true; t unshare -C true
for n in mnt net pid user ipc uts cgroup; do t nsenter --$n=/proc/1/ns/$n true; done; t mount -t cgroup2 x /tmp; t swapon x
t losetup -f; t hostname evil; t date -s 2001-01-01; t sysctl -w kernel.pid_max=1; t dmesg; t modprobe x; exit 0
