# Raises its own limits, all of them.
# expect: ok
for l in v u n f t d m; do (ulimit -$l unlimited) 2>/dev/null && [ $l != d ] && [ $l != m ] && echo BREACH $l; done
(ulimit -H -u 100000) 2>/dev/null && echo BREACH u; (ulimit -H -n 100000) 2>/dev/null && echo BREACH n
(ulimit -H -v 9999999999) 2>/dev/null && echo BREACH v; exit 0
