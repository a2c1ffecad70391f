# Keyrings, which outlive processes and which no namespace divides.
# expect: ok
from hostile import call, must_fail

for ring in (-1, -2, -3, -4, -5):
    must_fail("add_key", call, 248, b"user", b"mark", b"x", 1, ring)
    must_fail("keyctl read", call, 250, 11, ring, 0, 0, 0)
must_fail("request_key", call, 249, b"user", b"mark", 0, -2)
must_fail("keyctl join", call, 250, 1, b"shared", 0, 0, 0)
must_fail("persistent", call, 250, 22, -1, -2, 0, 0)
