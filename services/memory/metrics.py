"""Metrics of the memory beside those of every service."""

from prometheus_client import Counter, Gauge

DATABASE_UP = Gauge("e3rg_memory_database_up", "1 when the database answered the last transaction, 0 when it did not.")
MEDIA_UP = Gauge("e3rg_memory_media_up", "1 when the object storage answered the last request, 0 when it did not.")
STALE_READS = Counter("e3rg_memory_stale_reads_total", "Calls answered from the cache because the database was away.")
OUTBOX = Gauge("e3rg_memory_outbox", "Objects whose rows are gone and that are still to be deleted.")
SWEEPS = Counter("e3rg_memory_sweeps_total", "Maintenance runs.", ["outcome"])
for _outcome in ("ok", "failed"):
    SWEEPS.labels(_outcome)  # A rate needs the 0 before the first.
EXPIRED_ROWS = Counter("e3rg_memory_expired_rows_total", "Rows deleted because they were older than their retention.")
