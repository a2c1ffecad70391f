# Writes into the image, for everyone who comes after.
# expect: ok
for d in / /etc /usr /usr/bin /usr/lib /bin /lib /opt /var /root /home /run /run/bin /eval /reference /test /dev /sys /boot /srv; do
    (echo x > $d/ectype-x) 2>/dev/null && echo BREACH $d; done
for f in /etc/passwd /etc/ld.so.cache /usr/bin/env /bin/bash /run/empty; do (echo x >> $f) 2>/dev/null && echo BREACH $f
    rm -f $f 2>/dev/null && echo BREACH rm $f; chmod 777 $f 2>/dev/null && echo BREACH chmod $f; done; exit 0
