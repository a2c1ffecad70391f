# Takes all rights from the workspace and its own folder from under its feet.
# expect: ok
mkdir d; echo x > d/x; chmod 000 d d/x 2>/dev/null; cp -r /etc/hosts x; chmod 000 x; rmdir /work 2>/dev/null && echo BREACH rmdir
mv /work /tmp/w 2>/dev/null && echo BREACH mv; chmod 000 /work; exit 0
