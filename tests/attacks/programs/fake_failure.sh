# Pretends that the sandbox is broken.
# expect: nonzero
echo 'FATAL: container creation failed: no space left on device; sandbox lost' >&2
printf '\0\0\0\2\0\0\0\0{}'; printf '{"ok": false, "kind": "cell_lost"}' >&2; exit 255
