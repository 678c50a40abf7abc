"""What the memory measures of itself: what its copies save it, whether its store is there, and what is swept away."""

from prometheus_client import Counter, Gauge

READS = Counter(
    "e3rg_memory_reads_total",
    "Objects that were read: held (the store was not asked), same (it said so), read (it sent it), stale (it is away).",
    ["outcome"],
)
HELD_BYTES = Gauge("e3rg_memory_held_bytes", "Bytes of the copies that this process holds.")
STORE_UP = Gauge("e3rg_memory_store_up", "1 when the store answered the last request, 0 when it did not.")
SWEEPS = Counter("e3rg_memory_sweeps_total", "Sweeps that looked for what is to be erased.", ["outcome"])
EXPIRED_OBJECTS = Counter("e3rg_memory_expired_objects_total", "Objects that sweeps deleted because they were too old.")
