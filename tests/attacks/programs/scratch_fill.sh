# Fills every other place that can be written.
# expect: disk_full
# limits: workspace_bytes=8M
for d in /tmp /var/tmp /dev/shm /case; do cat /dev/zero > $d/fill; done
