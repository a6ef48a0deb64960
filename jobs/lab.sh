# shellcheck shell=bash disable=SC2154  # lab and script are set by who reads this
# What the job scripts of the labs have in common; each reads it by `source`. jobs/lab04.sbatch, the script that lab 4 reads line by line, has
# all of this in itself. Set before: lab (as lab05) and script (what SLURM says the script's place is: it runs a copy).
# Afterwards: cohort is the program, inputs the folder of run files, and `ranks` starts something on ranks of this job.

# Run files lie in inputs beside jobs, in a clone and installed.
home=${script%%/jobs/$lab.sbatch*}
[[ -d $home/inputs ]] || home=$PWD
# The program: the installed one that the script belongs to, or what `make` built in its clone; else the one on your PATH (module load cohort)
for cohort in "${home%/share/cohort}/bin/cohort" "$home/build/cpu/cohort" "$(type -P cohort)"; do
  [[ -f $cohort && -x $cohort ]] && break
done
if [[ ! -x $cohort ]]; then
  echo "$lab: there is no program cohort, neither built in $home nor on the PATH: run make there, or module load cohort, and submit again" >&2
  exit 4
fi
# a copy of the script, edited somewhere else, takes the run files of that program
inputs=$home/inputs
[[ -d $inputs ]] || inputs=$(dirname "$(dirname "$(realpath "$cohort")")")/share/cohort/inputs
echo "program $cohort, run files in $inputs"

# the srun that is running, for the signal handlers; and whether a signal asked us to stop
step=
stopping=no
# Pass USR1 on to the ranks: Cohort finishes the step it is in, saves a checkpoint and ends with exit code 9. TERM is passed on as USR1, since
# srun itself takes TERM as an order to kill the ranks.
trap 'stopping=yes; [[ -n $step ]] && kill -USR1 "$step"' USR1
trap 'stopping=yes; [[ -n $step ]] && kill -USR1 "$step"' TERM

# ranks N COMMAND ...: cohort COMMAND ... on N ranks of this job, one core each, on as few nodes as hold them. The job ends with the exit
# code of what fails, unless `may_end_with CODE` came before.
allowed=0
may_end_with() { allowed=$1; }
ranks() {
  # nothing new once a signal has arrived
  [[ $stopping == yes ]] && exit 9
  local number=$1
  shift
  # for the reader of the log
  echo "== cohort $*, on $number ranks"
  # Two ranks of a job of two nodes with two each would be spread over both.
  local of_node=${SLURM_NTASKS_PER_NODE:-}
  [[ -n $of_node && $of_node -lt $number ]] || of_node=$number
  # --ntasks: this one's share of the job's ranks. --mpi=pmix: how Open MPI learns its ranks. --kill-on-bad-exit: if one rank fails, the others
  # are ended. &: in the background, so that bash can handle signals.
  srun --nodes=$(((number + of_node - 1) / of_node)) --ntasks="$number" --ntasks-per-node="$of_node" --mpi=pmix --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 "$cohort" "$@" &
  step=$!
  # wait returns when srun ends, but also when a signal arrives: repeat it for as long as srun is alive
  while kill -0 "$step" 2>/dev/null; do wait "$step"; done
  # called again, wait returns the exit code of srun itself
  wait "$step"
  local code=$?
  step=
  [[ $code -eq 0 || $code -eq $allowed ]] || exit "$code"
  allowed=0
}
