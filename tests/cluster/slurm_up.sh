#!/usr/bin/env bash
# slurm_up.sh BASE: start a throw-away one-host Slurm under BASE (as root, no systemd), on free ports of the loopback.
# Nodes gpu1 (partition gpu, two fake GPUs) and cpu1, cpu2 (partition cpu). Afterwards:
#   export SLURM_CONF=BASE/etc/slurm.conf PATH=BASE/bin:$PATH ;  slurm_down.sh BASE
set -euo pipefail
BASE=$(mkdir -p "${1:?usage: slurm_up.sh BASE}" && cd "$1" && pwd)
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for program in slurmctld slurmd sbatch munged; do
  command -v $program >/dev/null || { echo "slurm_up.sh: $program is missing: apt-get install --no-install-recommends slurmctld slurmd slurm-client munge" >&2; exit 3; }
done
[ "$(id -u)" = 0 ] || { echo "slurm_up.sh: must be root, to run the jobs of other users" >&2; exit 3; }

HOST=$(hostname -s)
mkdir -p "$BASE"/{etc,run,log,state,spool,dev,bin}
chmod 755 "$BASE" "$BASE"/{etc,run,log,state,spool,bin}
install -m 755 "$HERE/sacct_stand_in" "$BASE/bin/sacct"
(umask 077; head -c 1024 /dev/urandom > "$BASE/etc/munge.key")
read -r CTLD P1 P2 P3 < <(python3 - <<'P'
import socket
sockets = [socket.socket() for _ in range(4)]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))
P
)

# Real memory limits and no escaping processes where the cgroup v1 trees are writable; else follow parent pids.
CGROUP=/sys/fs/cgroup
if [ -w $CGROUP/memory/cgroup.procs ] && [ -w $CGROUP/freezer/cgroup.procs ]; then
  PROCTRACK=proctrack/cgroup TASK=task/cgroup CGPLUGIN=cgroup/v1
else
  PROCTRACK=proctrack/linuxproc TASK=task/none CGPLUGIN=cgroup/v1
  version=$(slurmd -V | sed 's/[^0-9.]//g'); [ "${version%%.*}" -lt 24 ] || CGPLUGIN=disabled
fi
for i in 0 1; do [ -e "$BASE/dev/gpu$i" ] || mknod -m 666 "$BASE/dev/gpu$i" c 1 3; done
echo "NodeName=gpu1 Name=gpu File=$BASE/dev/gpu[0-1]" > "$BASE/etc/gres.conf"
cat > "$BASE/etc/cgroup.conf" <<E
CgroupPlugin=$CGPLUGIN
CgroupMountpoint=$CGROUP
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
ConstrainCores=no
ConstrainDevices=no
MinRAMSpace=8
E
cat > "$BASE/etc/slurm.conf" <<E
ClusterName=ectype-test
SlurmctldHost=$HOST(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$BASE/run/munge.sock,cred_expire=5
SlurmctldPort=$CTLD
SlurmctldPidFile=$BASE/run/slurmctld.pid
SlurmctldLogFile=$BASE/log/slurmctld.log
StateSaveLocation=$BASE/state
SlurmdPidFile=$BASE/run/slurmd.%n.pid
SlurmdLogFile=$BASE/log/slurmd.%n.log
SlurmdSpoolDir=$BASE/spool/%n
SlurmctldParameters=preempt_send_user_signal
SlurmdParameters=config_overrides
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
ProctrackType=$PROCTRACK
TaskPlugin=$TASK
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
JobRequeue=1
KillWait=5
MinJobAge=300
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
AccountingStorageType=accounting_storage/none
SlurmctldDebug=info
SlurmdDebug=info
NodeName=gpu1 NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$P1 CPUs=4 RealMemory=8000 Gres=gpu:2
NodeName=cpu1 NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$P2 CPUs=4 RealMemory=6000
NodeName=cpu2 NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$P3 CPUs=4 RealMemory=6000
PartitionName=gpu Nodes=gpu1     Default=NO  MaxTime=1-0 State=UP
PartitionName=cpu Nodes=cpu[1-2] Default=YES MaxTime=1-0 State=UP DefMemPerCPU=256
E
chmod 644 "$BASE"/etc/{slurm,gres,cgroup}.conf
export SLURM_CONF="$BASE/etc/slurm.conf"
munged --socket="$BASE/run/munge.sock" --key-file="$BASE/etc/munge.key" --pid-file="$BASE/run/munged.pid" \
  --log-file="$BASE/log/munged.log" --seed-file="$BASE/state/munge.seed" --num-threads=2
slurmctld -f "$SLURM_CONF"
for node in gpu1 cpu1 cpu2; do mkdir -p "$BASE/spool/$node"; slurmd -N $node -f "$SLURM_CONF"; done
for _ in $(seq 150); do
  [ "$(sinfo -h -N -t idle,mix,alloc -o %N 2>/dev/null | sort -u | wc -l)" = 3 ] && exit 0
  sleep 0.2
done
sinfo >&2 || true
tail -n 20 "$BASE"/log/*.log >&2
echo "slurm_up.sh: the cluster did not come up, see $BASE/log" >&2
exit 1
