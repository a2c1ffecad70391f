# One process that takes memory until there is none.
# expect: out_of_memory
# limits: memory_bytes=100M
held = []
while True:
    held.append(bytearray(1 << 20))
