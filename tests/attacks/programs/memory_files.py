# Memory as files: everything in memory that can be written, up to its size.
# expect: disk_full
# limits: workspace_bytes=4M
# leaves: full
for folder in ("/work", "/tmp", "/dev/shm", "/case"):
    total = 0
    try:
        with open(f"{folder}/fill", "wb", buffering=0) as file:
            while True:
                total += file.write(bytes(1 << 16))
    except OSError:
        pass
    if total > 4 << 20:
        print("BREACH", folder, total)
raise SystemExit(1)
