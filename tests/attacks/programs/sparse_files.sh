# Files that are large and take no space, against whoever packs them.
# expect: ok
for i in $(seq 50); do truncate -s 250M "sparse$i"; done; truncate -s 300M x 2>/dev/null && echo BREACH; exit 0
