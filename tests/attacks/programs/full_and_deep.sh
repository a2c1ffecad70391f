# Folders deeper than the init can recurse on a full disk, and then a failure, about which the init has to look around.
# expect: disk_full
# limits: workspace_bytes=2M
# leaves: full
if [ ! -e d ]; then
    python3 -c 'import os
for place in ("/work", "/tmp"):
    os.chdir(place)
    for _ in range(1900): os.mkdir("d"); os.chdir("d")'
    head -c 100M /dev/zero > /tmp/fill
    head -c 100M /dev/zero > fill
fi 2>/dev/null
exit 3
