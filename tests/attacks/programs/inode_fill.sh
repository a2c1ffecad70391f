# Takes every inode with empty files.
# expect: disk_full
# limits: workspace_inodes=300
# leaves: full
i=0; while : > "n$i" || exit 1; do i=$((i+1)); [ $i -lt 1000 ] || { echo BREACH $i files; exit 0; }; done
