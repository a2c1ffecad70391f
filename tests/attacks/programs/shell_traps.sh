# Start-up files and programs that the next command might run by mistake.
# expect: ok
for f in .bashrc .bash_profile .profile .bash_login .bash_logout .inputrc; do echo 'echo BREACH startup' > $f; done
for p in bash sh ps echo ls env python3 cat; do printf '#!/bin/sh\necho BREACH %s\n' $p > $p; chmod 755 $p; done
mkdir -p .local/lib/python3.11/site-packages; echo 'print("BREACH site")' > .local/lib/python3.11/site-packages/usercustomize.py
echo 'print("BREACH json")' | tee json.py os.py struct.py sitecustomize.py >/dev/null; exit 0
