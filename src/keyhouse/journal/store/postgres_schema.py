"""The schema of a store in PostgreSQL, and the check that a database has exactly that.

The server is not trusted, so the check is against accidents: a trigger, a rule or row security that
discards what was acknowledged, an unlogged table, a column of another type.
"""

__all__ = ["CREATE", "EXPECTED", "FOUND"]

CREATE = """
CREATE SCHEMA keyhouse;
CREATE TABLE keyhouse.head (
  store_id bytea PRIMARY KEY, epoch bigint NOT NULL, sequence bigint NOT NULL,
  chain bytea NOT NULL, fence bigint NOT NULL) WITH (fillfactor = 10);
CREATE TABLE keyhouse.epoch (
  store_id bytea PRIMARY KEY, epoch bigint NOT NULL, first bigint NOT NULL,
  previous bytea NOT NULL, key_check bytea NOT NULL);
CREATE TABLE keyhouse.record (
  store_id bytea, sequence bigint, header bytea NOT NULL, nonce bytea NOT NULL,
  ciphertext bytea NOT NULL, PRIMARY KEY (store_id, sequence));
ALTER TABLE keyhouse.record ALTER ciphertext SET STORAGE EXTERNAL;
"""
"""``head``: one row for each store, also for an empty one, whose epoch is 0."""

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
"""Describes what is in the schema, a text in each row, for a connection with no search path."""

_COLUMNS = {
    "head": "store_id bytea, epoch bigint, sequence bigint, chain bytea, fence bigint",
    "epoch": "store_id bytea, epoch bigint, first bigint, previous bytea, key_check bytea",
    "record": "store_id bytea, sequence bigint, header bytea, nonce bytea, ciphertext bytea",
}
_KEYS = {"head": "store_id", "epoch": "store_id", "record": "store_id, sequence"}

EXPECTED = sorted(
    [
        *(f"relation {table} r p" for table in _COLUMNS),
        *(
            f"column {table} {each}"
            for table, all_ in _COLUMNS.items()
            for each in all_.split(", ")
        ),
        *(f"constraint {table} PRIMARY KEY ({key})" for table, key in _KEYS.items()),
    ]
)
"""The rows of ``FOUND`` in a database as ``CREATE`` makes it, sorted."""
