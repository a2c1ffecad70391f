# Floods both streams.
# expect: timeout
# limits: wall_s=0.6 output_bytes=10000
yes >&2 & yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
