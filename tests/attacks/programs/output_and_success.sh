# More output than is kept, then success.
# expect: output_truncated
head -c 30000000 /dev/zero
