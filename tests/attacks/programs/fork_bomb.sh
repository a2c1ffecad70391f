# The classic: every process starts two.
# expect: timeout too_many_processes
# limits: processes=32 wall_s=1
:(){ :|:& };:; wait; sleep 60
