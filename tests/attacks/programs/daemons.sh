# Leaves daemons of all kinds behind, deaf to every signal that can be ignored.
# expect: ok
for i in 1 2 3; do
    setsid bash -c 'trap "" TERM HUP INT QUIT; while :; do sleep 0.05; done' &
    nohup sleep 3600 >/dev/null 2>&1 &
    (setsid setsid sleep 3600 </dev/null >/dev/null 2>&1 &) &
done
disown -a; sleep 0.1; exit 0
