"""Create the schema of a store in PostgreSQL, and check that a database has exactly this schema.

The server is untrusted, so the check protects only from accidents. Examples are a trigger, a rule
or row security that discards acknowledged records, an unlogged table, or a column with another
type.
"""

FOUND = """
WITH relation AS (
  SELECT c.* FROM pg_class c WHERE c.relnamespace = to_regnamespace('keyhouse'))
SELECT concat_ws(' ', 'relation', relname, relkind, relpersistence,
    CASE WHEN relrowsecurity THEN 'row-security' END) AS line
  FROM relation WHERE relkind <> 'i' OR relname NOT LIKE '%\\_pkey'
UNION ALL SELECT concat_ws(' ', 'column', r.relname, a.attname, format_type(atttypid, atttypmod),
    CASE WHEN NOT attnotnull THEN 'null' END, CASE WHEN atthasdef THEN 'default' END)
  FROM pg_attribute a JOIN relation r ON attrelid = r.oid AND relkind = 'r'
  WHERE attnum > 0 AND NOT attisdropped
UNION ALL SELECT concat_ws(' ', 'constraint', r.relname, pg_get_constraintdef(n.oid))
  FROM pg_constraint n JOIN relation r ON conrelid = r.oid WHERE contype <> 'n'
UNION ALL SELECT concat_ws(' ', 'trigger', r.relname, tgname)
  FROM pg_trigger JOIN relation r ON tgrelid = r.oid
UNION ALL SELECT concat_ws(' ', 'rule', r.relname, rulename)
  FROM pg_rewrite JOIN relation r ON ev_class = r.oid
UNION ALL SELECT concat_ws(' ', 'parent', r.relname, inhparent::regclass::text)
  FROM pg_inherits JOIN relation r ON inhrelid = r.oid OR inhparent = r.oid
LIMIT 100
"""
"""Describe the schema with one text per row, for a connection with an empty search path."""

_COLUMNS = {
    "current": "one boolean, store_id bytea",
    "head": "store_id bytea, epoch bigint, sequence bigint, chain bytea, fence bigint, ended text",
    "epoch": "store_id bytea, epoch bigint, first bigint, previous bytea, key_check bytea,"
    " recovery_index bytea",
    "record": "store_id bytea, sequence bigint, header bytea, nonce bytea, ciphertext bytea",
    "sealed": "store_id bytea, machine bytea, raw bytea",
    "note": "store_id bytea, kind text, name bytea, raw bytea, at timestamp with time zone default",
}
_CONSTRAINTS = {
    "current": ("PRIMARY KEY (one)", "CHECK (one)"),
    "head": ("PRIMARY KEY (store_id)",),
    "epoch": ("PRIMARY KEY (store_id)",),
    "record": ("PRIMARY KEY (store_id, sequence)",),
    "sealed": ("PRIMARY KEY (store_id, machine)",),
    "note": ("PRIMARY KEY (store_id, kind, name)",),
}

EXPECTED = sorted(
    [
        *(f"relation {table} r p" for table in _COLUMNS),
        *(
            f"column {table} {each}"
            for table, all_ in _COLUMNS.items()
            for each in all_.split(", ")
        ),
        *(f"constraint {table} {each}" for table, all_ in _CONSTRAINTS.items() for each in all_),
    ]
)
"""The rows of ``FOUND`` in a database that ``CREATE`` prepared, sorted."""
