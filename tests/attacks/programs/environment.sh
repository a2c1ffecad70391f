# Secrets and names in the environment.
# expect: ok
env | grep -i -E 'slurm|apptainer|singularity|token|secret|passw|ectype|ssh' | sed 's/^/BREACH /'; exit 0
