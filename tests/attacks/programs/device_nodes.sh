# Devices, made or found.
# expect: ok
mknod b b 8 0 2>/dev/null && echo BREACH b; mknod c c 1 1 2>/dev/null && echo BREACH c
mknod w c 0 0 2>/dev/null && head -c 1 w 2>/dev/null && echo BREACH w
for d in $(find /dev \( -type b -o -type c \) 2>/dev/null); do
    case $d in /dev/null|/dev/zero|/dev/full|/dev/random|/dev/urandom|/dev/tty|/dev/ptmx|/dev/pts/*) ;;
        *) (: < $d) 2>/dev/null && echo BREACH $d;; esac
done; exit 0
