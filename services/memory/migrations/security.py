"""Row-level security of tables with a tenant, on PostgreSQL."""

from alembic import op


def secure(*tables: str) -> None:
    """Force each table under two policies, a tenant's own and maintenance.

    A transaction says its tenant by `SET LOCAL e3rg.tenant`, or `e3rg.maintenance`; without either it sees no row.
    """
    for table in tables:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        # Scalar sub-selects run once a statement, not once a row.
        for policy, condition in (
            ("tenant_isolation", "tenant = (SELECT current_setting('e3rg.tenant', true))"),
            ("maintenance", "(SELECT current_setting('e3rg.maintenance', true)) = 'on'"),
        ):
            op.execute(f"CREATE POLICY {policy} ON {table} USING ({condition}) WITH CHECK ({condition})")
