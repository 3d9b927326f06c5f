import type { Store } from '../../core/kit/store/open-database.ts'

/** A migration: which bridge this is. One row. */
export const identityTable = `CREATE TABLE bridge_identity (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  instance TEXT NOT NULL,
  bridge TEXT,
  fleet TEXT,
  tls_cert TEXT,
  tls_key TEXT
) STRICT;
INSERT INTO bridge_identity (id, instance) VALUES (1, lower(hex(randomblob(16))))`

/** How the bridge was started last. Null: it has not been started since it records this. */
export interface StartedAs {
  readonly bridge: string | null
  readonly fleet: string | null
  /** Paths of the PEM files of its TLS certificate and key. Devices hold the bridge to that key. */
  readonly tlsCert: string | null
  readonly tlsKey: string | null
}

/** A bridge. Its instance is random and made with its state folder: it tells apart two bridges of one name. */
export interface BridgeIdentity extends StartedAs {
  readonly instance: string
}

/** @param store has `identityTable` */
export const identityOf = (store: Store): BridgeIdentity =>
  store
    .prepare<[], BridgeIdentity>('SELECT instance, bridge, fleet, tls_cert AS tlsCert, tls_key AS tlsKey FROM bridge_identity')
    .get()!

/** @param store has `identityTable` */
export function recordStart(store: Store, started: StartedAs): void {
  store
    .prepare('UPDATE bridge_identity SET bridge = @bridge, fleet = @fleet, tls_cert = @tlsCert, tls_key = @tlsKey')
    .run(started)
}
