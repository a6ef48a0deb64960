"""A run that breaks on purpose again and again (`--fault`), started anew with the same command each time, as a chain of jobs is: each fault
must end the job within seconds, with the code and the reason that people need, and leave a whole checkpoint; and the end must be that of a
run that nobody disturbed, bit for bit. How ranks are started is the caller's affair."""

import subprocess

LAST = 26
# Short steps, a checkpoint every second one. The debug level writes a line for each step: so a full disk shows at once.
RUN = {"model__width": 16, "model__context": 16, "train__global_batch": 6, "train__micro_batch": 1, "train__steps": LAST,
       "schedule__warmup_steps": 0, "train__validate_every": 0, "sample__tokens": 0, "checkpoint__every": 2, "log__level": "debug"}
LOST = 12
WATCH_SECONDS = 4  # the time-out of the watch where it is what ends the job
SLOW = "slow:rank=1,step=20,seconds=0.15"  # not an end: the steps from here on wait for rank 1


def value_of(key, fault):
    return int(fault.partition(f"{key}=")[2].partition(",")[0])


class FaultChain:
    def __init__(self, training, verify_run, start, seconds, **keys):
        """start(words): runs `cohort` with these words on the ranks of this chain, and returns what Launched.run does. seconds: how long a
        job may last that breaks. keys: over those of RUN."""
        self.training, self.verify_run, self.start, self.seconds = training, verify_run, start, seconds
        self.job = training.job
        self.keys = RUN | keys

    def verified(self, name):
        """The newest checkpoint, read back whole; 0 if there is none."""
        done = subprocess.run([self.verify_run, self.training.path(name)], capture_output=True, text=True, timeout=60)
        self.job.check(f"{name}: what counts as a checkpoint is whole", done.returncode == 0, done.stderr)
        return max((int(step) for step in done.stdout.split()), default=0)

    def run(self, name, rows):
        """rows: the fault; the exit codes that are right; what stderr says, each a text or a choice of texts."""
        job, training = self.job, self.training
        faults = [word for fault in [*[row[0] for row in rows], SLOW] for word in ("--fault", fault)]
        words = training.words(name, "--resume-if-any", *faults, **self.keys)
        for number, row in enumerate(rows):
            self.break_once(name, words, row, to_come=len(rows) + 1 - number)
        job.expect(f"{name} gets to its end", self.start(words), 0, lines=0, seconds=60)
        job.expect(f"{name}: started once more, there is nothing to do", self.start(words), 0, lines=0, seconds=60)
        job.expect(f"{name} undisturbed", self.start(training.words(name + "_undisturbed", **self.keys)), 0, lines=0, seconds=60)
        job.check(f"{name} ends as if undisturbed", training.sums(name, LAST) == training.sums(name + "_undisturbed", LAST))
        metrics = training.metrics(name)
        job.check(f"{name} has each step once in its metrics", [line["step"] for line in metrics] == list(range(1, LAST + 1)), str(metrics))
        slow = [line["seconds"]["step"] for line in metrics[value_of("step", SLOW) - 1 :]]
        # Together, and less two of them: on a busy machine rank 0 may read its clock late after one step, which shortens the next.
        job.check(f"{name}: the slow rank makes the steps slow", sum(slow) > (len(slow) - 2) * 0.15, str(slow))

    def problems_of_doctor(self, name, fault):
        """Of a rank that died or hangs the doctor knows the step; of an error that was thrown, what the log has of it."""
        kind, rank, step = fault.partition(":")[0], value_of("rank", fault), value_of("step", fault)
        code, page, stderr, _ = self.job.run(["doctor", self.training.path(name)])
        rows = [line.split() for line in page.splitlines()]
        at_step = any(row[:1] == [str(rank)] and str(step) in row[1:4] for row in rows)  # rank, host (if known), process, step
        if kind in ("disk", "slow", "device") or code == 0 and (f"in step {step}: " in page if kind == "throw" else
                                                                f"step {step}: loss" in page if kind == "nan" else at_step):
            return []
        return [f"the doctor does not know of step {step}:\n{page}{stderr}"]

    def break_once(self, name, words, row, to_come):
        job, training = self.job, self.training
        fault, codes, parts = row
        before = self.verified(name)
        watched = ["--set", f"watch.timeout={WATCH_SECONDS}"] if codes == (LOST,) else []
        code, stdout, stderr, took = self.start([*words, *watched])
        problems = [f"exit code {code}, wanted one of {codes}"] if code not in codes else []
        choices = [part if isinstance(part, tuple) else (part,) for part in parts]
        problems += [f"none of {texts} on stderr" for texts in choices if not any(text in stderr for text in texts)]
        problems += [f"took {took:.0f} s"] if took > self.seconds else []
        problems += self.problems_of_doctor(name, fault)
        if stdout.count("fault: rank ") != to_come:
            problems.append("the console does not announce each fault that is to come once")
        if before > 0 and f"resumed     at step {before}\n" not in stdout:
            problems.append(f"it did not go on from step {before}")
        job.check(f"{name}: {fault}", not problems, "\n".join(problems) + f"\n{stdout}{stderr}")
        rank, step = value_of("rank", fault), value_of("step", fault)
        log = training.log(name, rank)
        job.check(f"{name}: the log of rank {rank} tells of it", f"warning rank {rank}: fault: now, at step {step}" in log, log[-2000:])
        newest = self.verified(name)
        job.check(f"{name}: no checkpoint is lost", newest == (step - 1) // 2 * 2, f"{newest}, it broke at step {step}")
