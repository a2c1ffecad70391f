# An environment that no program can be started with.
# expect: nonzero
X=$(head -c 4000000 /dev/zero | tr '\0' x); export X; for i in $(seq 9); do export X$i="$X"; done; /bin/true
