"""Creates the schema of a new database, for people."""

from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_connection import ConnectionDroppedError, first_prepared
from keyhouse.journal.store.protocol import StoreUnreadableError


async def create_schema(url: Secret) -> None:
    """Create the schema in a database without it. Raises ``StoreUnreadableError``."""

    async def prepare(*_: object) -> None:
        pass

    connection = await first_prepared(url, prepare)
    try:
        await connection.execute(CREATE)
    except ConnectionDroppedError as error:
        text, hint = _NOT_CREATED.get(error.sqlstate, _NOT_CREATED[""])
        raise StoreUnreadableError(
            f"the schema keyhouse cannot be created: {text}", hint=hint
        ) from None
    finally:
        await connection.close()


_NOT_CREATED = {
    "42P06": (
        "the database has this schema already",
        "use this database as it is; if it belongs to another deployment, create a new database",
    ),
    "42501": (
        "the user of the URL may not create schemas in this database",
        "run GRANT CREATE ON DATABASE ... TO the user, or make the user the owner",
    ),
    "": ("the server did not create it", "read the log of the database server"),
}


CREATE = """
CREATE SCHEMA keyhouse;
CREATE TABLE keyhouse.current (one boolean PRIMARY KEY CHECK (one), store_id bytea NOT NULL);
CREATE TABLE keyhouse.head (
  store_id bytea PRIMARY KEY, epoch bigint NOT NULL, sequence bigint NOT NULL,
  chain bytea NOT NULL, fence bigint NOT NULL, ended text NOT NULL) WITH (fillfactor = 10);
CREATE TABLE keyhouse.epoch (
  store_id bytea PRIMARY KEY, epoch bigint NOT NULL, first bigint NOT NULL,
  previous bytea NOT NULL, key_check bytea NOT NULL, recovery_index bytea NOT NULL);
CREATE TABLE keyhouse.record (
  store_id bytea, sequence bigint, header bytea NOT NULL, nonce bytea NOT NULL,
  ciphertext bytea NOT NULL, PRIMARY KEY (store_id, sequence));
ALTER TABLE keyhouse.record ALTER ciphertext SET STORAGE EXTERNAL;
CREATE TABLE keyhouse.sealed (
  store_id bytea, machine bytea, raw bytea NOT NULL, PRIMARY KEY (store_id, machine));
CREATE TABLE keyhouse.note (
  store_id bytea, kind text, name bytea, raw bytea NOT NULL, at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (store_id, kind, name));
"""
"""The tables of the schema ``keyhouse``.

``current`` has the id of the served store; it has no row before the first manifest. ``head`` has a
row for each store, also for an empty store, whose epoch is 0. ``head.ended`` is empty,
``archived``, or ``moved to`` and the digest of the ``sealed_key`` in the target directory.
``sealed`` has the data key as sealed by each machine. ``note.at`` only serves to delete old notes;
no check trusts it. Notes of the kind ``log`` are the parts of a transparency log; their
``store_id`` is the id of the log.
"""
