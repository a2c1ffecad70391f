# Children that are stopped, and one that stops its parent again and again.
# expect: timeout
# limits: wall_s=0.6
for i in 1 2 3; do sleep 3600 & kill -STOP $!; done
(trap "" TERM; while :; do kill -STOP $$; sleep 0.01; done) & wait
