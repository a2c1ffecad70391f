# Kills all it can reach, at last itself.
# expect: killed
sleep 60 & kill -9 -1; kill -STOP -1; kill -9 0; kill -9 $$
