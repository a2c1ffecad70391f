# Links out of the workspace, in circles, and under the names that the host reads.
# expect: ok
ln -s /etc/passwd main.py; ln -s /etc out; ln -s . loop; ln -s /proc/self/environ e; ln -s /proc/1/root/etc/passwd p
mkdir d; ln -s ../../etc/passwd d/up; ln -s /dev/zero zero; ln -s loop/loop/loop/loop chain
