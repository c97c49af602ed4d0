"""What the Trace Event Format asks of a file, and how Perfetto reads it."""

from ddpquiz.events import trace

# What the Trace Event Format asks of an event, by its phase: the fields that it must have, and those that it may have.
NUMBER = (int, float)
COMMON = {"ph": str, "name": str, "pid": int, "tid": int, "ts": NUMBER}
PHASES = {
    "X": ({**COMMON, "dur": NUMBER, "cat": str}, {"args": dict}),
    "i": ({**COMMON, "s": str, "cat": str}, {"args": dict}),
    "C": ({**COMMON, "args": dict}, {}),
    "M": ({**COMMON, "args": dict}, {}),
    "s": ({**COMMON, "cat": str, "id": int}, {}),
    "f": ({**COMMON, "cat": str, "id": int, "bp": str}, {}),
}
METADATA = {
    "process_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}


def complaints(told):
    """What is wrong with a trace by the format, and by how Perfetto reads it."""
    wrong, owners, named = [], {}, set()
    if set(told) - {"displayTimeUnit", "traceEvents"} or told["displayTimeUnit"] not in ("ms", "ns"):
        wrong.append("the object itself")
    for event in told["traceEvents"]:
        must, may = PHASES.get(event["ph"], ({}, {}))
        known = must | may
        if not must or must.keys() - event.keys() or event.keys() - known.keys():
            wrong.append(f"fields of {event}")
            continue
        wrong += [f"{name} of {event}" for name, value in event.items() if not isinstance(value, known[name])]
        pid, tid = event["pid"], event["tid"]
        if pid <= 0 or tid <= 0:  # process 0 and thread 0 are the kernel's
            wrong.append(f"kernel's place of {event}")
        if {owners.setdefault(each, pid) for each in (pid, tid)} != {pid}:  # all threads are numbered together
            wrong.append(f"another's place of {event}")
        match event["ph"]:
            case "X" if event["dur"] < 0 or event["ts"] < 0:
                wrong.append(f"times of {event}")
            case "i" if event["s"] not in ("g", "p", "t"):
                wrong.append(f"scope of {event}")
            case "C" if not all(isinstance(value, NUMBER) for value in event["args"].values()):
                wrong.append(f"value of {event}")
            case "C" if list(event["args"]) != [""]:  # a curve is called by its name and what stands here
                wrong.append(f"double name of {event}")
            case "M":
                key, kind = METADATA[event["name"]]
                if not isinstance(event["args"].get(key), kind):
                    wrong.append(f"args of {event}")
                named.add((event["name"], pid if event["name"] == "process_name" else tid))
    for event in told["traceEvents"]:
        if not {("process_name", event["pid"]), ("thread_name", event["tid"])} <= named:
            wrong.append(f"no name of {event}")
    return wrong + read(told["traceEvents"])[1]


def read(events):
    """The arrows of a trace as Perfetto finds them, and what it cannot place.

    Events come in order of time, at the same time in that of the file. A slice is put into those of its row that last
    longer. Each end of an arrow goes to the slice of its row that began last, if at all, and is returned as the slices
    that it is in, from the outermost.
    """
    arrows, wrong, rows, starts = [], [], {}, {}
    for event in sorted((event for event in events if event["ph"] in "Xisf"), key=lambda event: event["ts"]):
        row, at = rows.setdefault(event["tid"], []), nanoseconds(event["ts"])
        if event["ph"] in "Xi":
            while row and ended(row[-1]) <= at:
                row.pop()
            if row and ended(row[-1]) < ended(event):
                wrong.append(f"overlap of {row[-1]} and {event}")
            row.append(event)
            continue
        key = event["cat"], event["name"], event["id"]
        if not row or at >= ended(row[-1]):
            wrong.append(f"no slice around {event}")
        elif event["ph"] == "s" and starts.setdefault(key, row[:]) != row:
            wrong.append(f"second start of {event}")
        elif event["ph"] == "f":
            if event["bp"] != "e" or key not in starts:
                wrong.append(f"no start of {event}")
            elif starts[key][-1]["ts"] > row[-1]["ts"]:
                wrong.append(f"turned round: {event}")
            arrows.append((starts.pop(key, []), row[:]))
    return arrows, wrong + [f"no finish of {key}" for key in starts]


def nanoseconds(time):
    return round(time * 1000)


def ended(event):
    return nanoseconds(event["ts"]) + nanoseconds(event.get("dur", 0))


def told(events):
    return {"displayTimeUnit": "ms", "traceEvents": list(trace.trace(events))}
