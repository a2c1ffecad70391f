# Ends at once, while a grandchild holds its output open and writes to it.
# expect: ok
(setsid bash -c 'while echo more; do sleep 0.02; done' &) ; exit 0
