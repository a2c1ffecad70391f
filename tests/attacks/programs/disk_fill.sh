# Fills the workspace to the last byte and leaves it so.
# expect: disk_full
# limits: workspace_bytes=8M
# leaves: full
for i in 1 2 3; do cat /dev/zero > "fill$i"; done
