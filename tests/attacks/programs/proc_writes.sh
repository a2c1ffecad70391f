# Writes to every file of /proc and /sys that is not about itself.
# expect: ok
find /proc/sys /sys /proc/1 -type f -writable 2>/dev/null | while read -r f; do
    v=$(head -c 4096 "$f" 2>/dev/null) && (printf '%s' "$v" > "$f") 2>/dev/null && echo BREACH "$f"; done
for f in sysrq-trigger irq/default_smp_affinity scsi/scsi mtrr acpi/wakeup; do
    (echo b > /proc/$f) 2>/dev/null && echo BREACH $f; done
(echo '|/work/x' > /proc/sys/kernel/core_pattern) 2>/dev/null && echo BREACH core_pattern
(echo 99999 > /proc/sys/user/max_user_namespaces) 2>/dev/null && echo BREACH userns
(echo -1000 > /proc/self/oom_score_adj) 2>/dev/null && echo BREACH oom; exit 0
