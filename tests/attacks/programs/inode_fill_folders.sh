# Takes every inode with folders and links, in scratch too.
# expect: disk_full
# limits: workspace_inodes=200
# leaves: full
for d in /work /tmp; do cd $d; mkdir $(seq 150); ln -s x $(seq 300 399) 2>/dev/null; for i in $(seq 99); do ln -s x l$i; done; done
exit 1
