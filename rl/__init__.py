"""The learning side: tasks, rollouts, Megatron actor and critic, PPO."""

import os
import warnings

# Must be set before torch is imported. The trainer shares its cores with sandboxes; OpenMP threads that spin while
# they wait for one that was descheduled make every operation of a small model ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Megatron tells at import and in every module that Apex and Transformer Engine are absent, and what it will deprecate.
warnings.filterwarnings("ignore", module=r"megatron\.")
