# Folders deeper than any path can be written.
# expect: ok
d=$(printf '%0100d' 0); for i in $(seq 70); do mkdir $d && cd $d || exit 1; done; echo x > x; exit 0
