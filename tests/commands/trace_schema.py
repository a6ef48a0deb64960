"""Whether a trace is one: the trace event format as Perfetto reads it, and what Cohort promises beyond that (src/observe/trace_json.hpp)."""

import json
from collections import defaultdict

KINDS = {"step", "phase", "micro_batch", "layer", "work", "wait", "request", "transfer", "stall", "kernel"}
WITHIN = {"layer": {"micro_batch"}, "micro_batch": {"phase"}, "phase": {"step", "phase", "micro_batch", "layer", "work"}}  # on the track of the step
EVERYBODY_WAITS = {"all_reduce", "all_gather", "reduce_scatter", "barrier"}  # no rank is through before all have come
HALF = 0.0006  # us: times are rounded to a nanosecond


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def end(event):
    return event["ts"] + event["dur"]


def slices(trace, rank, track=0):
    """The slices of a track, each with the one that encloses it (or None), as (slice, outer)."""
    found, stack = [], []
    for event in trace["traceEvents"]:
        if event["ph"] != "X" or (event["pid"], event["tid"]) != (rank, track):
            continue
        while stack and end(stack[-1]) <= event["ts"] + HALF and end(event) > end(stack[-1]) + HALF:
            stack.pop()
        found.append((event, stack[-1] if stack else None))
        stack.append(event)
    return found


def requests(trace, rank):
    """(begin, end, arguments) of the operations of a rank."""
    begun = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "b" and e["pid"] == rank}
    return [(begun[e["id"]]["ts"], e["ts"], begun[e["id"]]["args"]) for e in trace["traceEvents"]
            if e["ph"] == "e" and e["pid"] == rank and e["id"] in begun]


def faults(trace):
    """What is wrong with it, in sentences; nothing if it is sound."""
    found = []
    head = trace.get("otherData", {})
    ranks = head.get("ranks", 0)
    first, last = head.get("steps", [1, 0])
    if head.get("program") != "cohort" or not trace.get("traceEvents") or head.get("clock", {}).get("error_us") is None:
        return ["the head does not say what the trace is of"]
    names = defaultdict(set)
    tracks, at, begun, ended = set(), {}, {}, set()
    for event in trace["traceEvents"]:
        kind, rank = event["ph"], event["pid"]
        if rank not in range(ranks):
            found.append(f"an event of rank {rank} of {ranks}")
        if kind == "M":
            names[event["name"]].add((rank, event["tid"]))
            continue
        if event["cat"] not in KINDS or event["ts"] < 0 or event.get("dur", 0) < 0 or not event["name"]:
            found.append(f"no such event: {event}")
        line = (rank, event["tid"] if kind == "X" else "requests")
        if event["ts"] < at.get(line, 0):
            found.append(f"time goes back on track {line}: {event}")
        at[line] = event["ts"]
        if kind == "X":
            tracks.add(line)
        elif kind == "b":
            if event["id"] in begun:
                found.append(f"two requests have one number: {event}")
            begun[event["id"]] = event
        elif kind == "e":
            start = begun.get(event["id"])
            if start is None or start["name"] != event["name"] or start["pid"] != rank or event["id"] in ended:
                found.append(f"an end without its begin: {event}")
            ended.add(event["id"])
        else:
            found.append(f"an event of a type that cohort does not write: {event}")
    found += [f"a begin without its end: {event}" for number, event in begun.items() if number not in ended]
    found += [f"rank {rank} has no name" for rank in range(ranks) if (rank, 0) not in names["process_name"]]
    found += [f"track {line} has no name" for line in sorted(tracks - names["thread_name"])]
    for rank, track in sorted(tracks):
        found += nesting_faults(trace, rank, track)
    for rank in range(ranks):
        found += step_faults(trace, rank, first, last)
    return found + clock_faults(trace, ranks, head["clock"]["error_us"])


def nesting_faults(trace, rank, track):
    found = []
    for event, outer in slices(trace, rank, track):
        if outer is not None and end(event) > end(outer) + HALF:
            found.append(f"a slice reaches beyond the one that it is in: {event} in {outer}")
        if track == 0 and event["cat"] in WITHIN and (outer is None or outer["cat"] not in WITHIN[event["cat"]]):
            found.append(f"a slice at the wrong place: {event} in {outer}")
    return found


def step_faults(trace, rank, first, last):
    steps = [event for event, _ in slices(trace, rank) if event["cat"] == "step"]
    if [event["name"] for event in steps] != [f"step {step}" for step in range(first, last + 1)]:
        return [f"rank {rank} has the steps {[event['name'] for event in steps]}"]
    return [f"rank {rank}: {b['name']} does not begin where {a['name']} ends" for a, b in zip(steps, steps[1:]) if abs(end(a) - b["ts"]) > 2 * HALF]


def clock_faults(trace, ranks, error):
    """No rank leaves an operation before all have entered it, and nothing arrives before it was sent: as far as the clocks are right."""
    together, sent, received = defaultdict(list), defaultdict(list), defaultdict(list)
    for rank in range(ranks):
        for begin, stop, about in requests(trace, rank):
            if about["ranks"] == ranks and about["operation"] in EVERYBODY_WAITS:
                together[about["group"], about.get("number")].append((begin, stop, about))
            elif about["operation"] == "send":
                sent[about["group"], rank, about["peer"]].append(begin)
            elif about["operation"] == "recv":
                received[about["group"], about["peer"], rank].append(stop)
    found = []
    for calls in together.values():
        latest, earliest = max(begin for begin, _, _ in calls), min(stop for _, stop, _ in calls)
        if len(calls) == ranks and latest > earliest + 2 * error + HALF:
            found.append(f"a rank is through {latest - earliest:.1f} us before another begins, with clocks right to {error:.1f}: {calls[0][2]}")
    for flow, begins in sent.items():
        for begin, stop in zip(sorted(begins), sorted(received[flow])):
            if len(begins) == len(received[flow]) and stop < begin - 2 * error - HALF:
                found.append(f"a message of {flow} arrives {begin - stop:.1f} us before it is sent")
    return found
