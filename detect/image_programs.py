"""Names of the programs of an image and of bash's builtins: whatever else a script starts is not found.

`tests/detect/test_fakes_scripts.py` compares the list of the base image with the one that ships; a worker reads the
names from the folders of the image that it has, which may have been given more packages.
"""

from __future__ import annotations

from pathlib import Path

FOLDERS = ("usr/local/bin", "usr/bin", "usr/sbin")


def of_image(root: Path) -> frozenset[str]:
    """What can be started in the image at `root` (a folder), with bash's builtins."""
    names = {name.name for folder in FOLDERS if (root / folder).is_dir() for name in (root / folder).iterdir()}
    return frozenset(names) | BUILTINS


BASE = frozenset([
    ".", ":", "[", "add-shell", "addpart", "addr2line", "agetty", "alias", "ar", "arch", "as", "awk", "b2sum",
    "base32", "base64", "basename", "basenc", "bash", "bashbug", "bc", "bg", "bind", "blkdiscard", "blkid",
    "blkzone", "blockdev", "break", "builtin", "c++", "c++filt", "c89", "c89-gcc", "c99", "c99-gcc", "caller",
    "cat", "cc", "cd", "chcon", "chcpu", "chgrp", "chmem", "chmod", "choom", "chown", "chroot", "chrt", "cksum",
    "clear_console", "cmp", "col", "colcrt", "colrm", "column", "comm", "command", "compgen", "complete", "compopt",
    "continue", "cp", "cpp", "cpp-12", "csplit", "ctrlaltdel", "cut", "dash", "date", "dd", "declare", "delpart",
    "df", "diff", "diff3", "dir", "dircolors", "dirname", "dirs", "disown", "dmesg", "dnsdomainname", "domainname",
    "du", "echo", "egrep", "elfedit", "enable", "env", "eval", "exec", "exit", "expand", "export", "expr", "factor",
    "fallocate", "false", "fc", "fg", "fgrep", "fincore", "find", "findfs", "findmnt", "flock", "fmt", "fold",
    "free", "fsck", "fsck.cramfs", "fsck.minix", "fsfreeze", "fstrim", "g++", "g++-12", "gcc", "gcc-12", "gcc-ar",
    "gcc-ar-12", "gcc-nm", "gcc-nm-12", "gcc-ranlib", "gcc-ranlib-12", "gcov", "gcov-12", "gcov-dump",
    "gcov-dump-12", "gcov-tool", "gcov-tool-12", "gencat", "getconf", "getent", "getopt", "getopts", "getty",
    "gmake", "gold", "gprof", "grep", "groups", "gunzip", "gzexe", "gzip", "hardlink", "hash", "hd", "head", "help",
    "hexdump", "history", "hostid", "hostname", "hwclock", "i386", "iconv", "iconvconfig", "id", "install",
    "installkernel", "ionice", "ipcmk", "ipcrm", "ipcs", "ischroot", "isosize", "jobs", "join", "kill", "last",
    "lastb", "ld", "ld.bfd", "ld.gold", "ld.so", "ldattach", "ldconfig", "ldd", "let", "link", "linux32", "linux64",
    "ln", "local", "locale", "localedef", "logname", "logout", "look", "ls", "lsblk", "lscpu", "lsfd", "lsipc",
    "lsirq", "lslocks", "lslogins", "lsmem", "lsns", "make", "make-first-existing-target", "mapfile", "mawk",
    "mcookie", "md5sum", "md5sum.textutils", "mesg", "mkdir", "mkfifo", "mkfs", "mkfs.bfs", "mkfs.cramfs",
    "mkfs.minix", "mknod", "mkswap", "mktemp", "more", "mountpoint", "mv", "namei", "nice", "nisdomainname", "nl",
    "nm", "nohup", "nproc", "nsenter", "numfmt", "objcopy", "objdump", "od", "partx", "paste", "pathchk", "pgrep",
    "pidwait", "pinky", "pivot_root", "pkill", "pldd", "pmap", "popd", "pr", "printenv", "printf", "prlimit", "ps",
    "ptx", "pushd", "pwd", "pwdx", "python3", "python3.11", "ranlib", "rbash", "read", "readarray", "readelf",
    "readlink", "readonly", "readprofile", "realpath", "remove-shell", "rename.ul", "resizepart", "return", "rev",
    "rgrep", "rm", "rmdir", "rmt-tar", "rpcgen", "rtcwake", "run-parts", "runcon", "runuser", "savelog", "sdiff",
    "sed", "seq", "set", "setarch", "setpriv", "setsid", "setterm", "sh", "sha1sum", "sha224sum", "sha256sum",
    "sha384sum", "sha512sum", "shift", "shopt", "shred", "shuf", "size", "skill", "slabtop", "sleep", "snice",
    "sort", "source", "split", "stat", "stdbuf", "strings", "strip", "stty", "sulogin", "sum", "suspend",
    "swaplabel", "switch_root", "sync", "sysctl", "tac", "tail", "tar", "tarcat", "taskset", "tee", "tempfile",
    "test", "timeout", "times", "tload", "top", "touch", "tr", "trap", "true", "truncate", "tsort", "tty", "type",
    "typeset", "tzselect", "uclampset", "ul", "ulimit", "umask", "unalias", "uname", "uncompress", "unexpand",
    "uniq", "unlink", "unset", "unshare", "update-shells", "uptime", "users", "utmpdump", "vdir", "vmstat", "w",
    "wait", "watch", "wc", "wdctl", "whereis", "which", "which.debianutils", "who", "whoami", "wipefs", "write",
    "x86_64", "x86_64-linux-gnu-addr2line", "x86_64-linux-gnu-ar", "x86_64-linux-gnu-as",
    "x86_64-linux-gnu-c++filt", "x86_64-linux-gnu-cpp", "x86_64-linux-gnu-cpp-12", "x86_64-linux-gnu-elfedit",
    "x86_64-linux-gnu-g++", "x86_64-linux-gnu-g++-12", "x86_64-linux-gnu-gcc", "x86_64-linux-gnu-gcc-12",
    "x86_64-linux-gnu-gcc-ar", "x86_64-linux-gnu-gcc-ar-12", "x86_64-linux-gnu-gcc-nm",
    "x86_64-linux-gnu-gcc-nm-12", "x86_64-linux-gnu-gcc-ranlib", "x86_64-linux-gnu-gcc-ranlib-12",
    "x86_64-linux-gnu-gcov", "x86_64-linux-gnu-gcov-12", "x86_64-linux-gnu-gcov-dump",
    "x86_64-linux-gnu-gcov-dump-12", "x86_64-linux-gnu-gcov-tool", "x86_64-linux-gnu-gcov-tool-12",
    "x86_64-linux-gnu-gold", "x86_64-linux-gnu-gp-archive", "x86_64-linux-gnu-gp-collect-app",
    "x86_64-linux-gnu-gp-display-html", "x86_64-linux-gnu-gp-display-src", "x86_64-linux-gnu-gp-display-text",
    "x86_64-linux-gnu-gprof", "x86_64-linux-gnu-ld", "x86_64-linux-gnu-ld.bfd", "x86_64-linux-gnu-ld.gold",
    "x86_64-linux-gnu-nm", "x86_64-linux-gnu-objcopy", "x86_64-linux-gnu-objdump", "x86_64-linux-gnu-ranlib",
    "x86_64-linux-gnu-readelf", "x86_64-linux-gnu-size", "x86_64-linux-gnu-strings", "x86_64-linux-gnu-strip",
    "xargs", "yes", "ypdomainname", "zcat", "zcmp", "zdiff", "zdump", "zegrep", "zfgrep", "zforce", "zgrep", "zic",
    "zless", "zmore", "znew", "zramctl",
])  # fmt: skip

BUILTINS = frozenset([
    ".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete",
    "compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export", "false",
    "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local", "logout", "mapfile", "popd",
    "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift", "shopt", "source", "suspend",
    "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
])  # fmt: skip
