import pg from 'pg'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Row } from './row-changes.ts'

/**
 * The layout. `brim_fleets`: of each fleet who is its primary bridge, until when (by the clock of this database), and how many times
 * rows have been written (`ship`). `brim_rows`: the rows of the primary's SQLite files; a deleted one stays without content until the
 * other bridges have seen it.
 */
const layout = 1
const tables = `
CREATE TABLE IF NOT EXISTS brim_layout (id int PRIMARY KEY CHECK (id = 1), version int NOT NULL);
INSERT INTO brim_layout VALUES (1, ${layout}) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS brim_fleets (
  fleet text PRIMARY KEY,
  bridge text NOT NULL,
  versions text NOT NULL,
  lease bigint NOT NULL DEFAULT 0,
  node text,
  url text,
  pin text,
  auth boolean,
  expires_at timestamptz NOT NULL DEFAULT '-infinity',
  ship bigint NOT NULL DEFAULT 0,
  wall_ms double precision,
  wall_at timestamptz
);
CREATE TABLE IF NOT EXISTS brim_nodes (
  fleet text NOT NULL,
  node text NOT NULL,
  url text NOT NULL,
  seen_at timestamptz NOT NULL,
  PRIMARY KEY (fleet, node)
);
CREATE TABLE IF NOT EXISTS brim_rows (
  fleet text NOT NULL,
  file text NOT NULL,
  name text NOT NULL,
  key text NOT NULL,
  ship bigint NOT NULL,
  content text,
  deleted_at timestamptz,
  PRIMARY KEY (fleet, file, name, key)
);
CREATE INDEX IF NOT EXISTS brim_rows_ship ON brim_rows (fleet, ship, file, name, key);
`

/** Of one of the SQLite files. */
export interface FileRow extends Row {
  readonly file: string
}

/** The bridge that holds the lease: a device or client that reaches another one is forwarded to it. */
export interface Primary {
  readonly node: string
  readonly url: string
  /** Of the key of its TLS certificate. */
  readonly pin: string | null
  /** Whether callers must prove their identity. */
  readonly auth: boolean
}

/** Of a fleet, as the database has it. */
export interface FleetRecord {
  readonly bridge: string
  /** Migrations that each file has had. */
  readonly versions: Readonly<Record<string, number>>
  /** Number of the latest lease. */
  readonly lease: number
  /** Undefined: no bridge has a lease that is valid now. */
  readonly primary: Primary | undefined
}

/** The lease that a node holds. */
export interface Lease {
  readonly number: number
  /** What the clock of the jobs' deadlines shows now, by the clock of the primary before; undefined: there was none. UTC ms. */
  readonly wallMs: number | undefined
}

export interface RowPage {
  readonly rows: readonly FileRow[]
  readonly after: Place
}
/** Rows are read in this order. */
export interface Place {
  readonly ship: string
  readonly file: string
  readonly name: string
  readonly key: string
}
export const firstPlace: Place = { ship: '-1', file: '', name: '', key: '' }

const pageRows = 5_000
/** Time without an answer after which a connection is given up. */
const queryTimeoutMs = 5_000

/** What the bridges of a fleet share, in PostgreSQL. Each call is one transaction. @throws BrimError DATABASE_UNAVAILABLE in every call */
export class FleetDatabase {
  readonly #url: string
  readonly #fleet: string
  #connecting: Promise<pg.Client> | undefined

  constructor(url: string, fleet: string) {
    this.#url = url
    this.#fleet = fleet
  }

  /** Creates the layout where it is missing. @throws BrimError STORE_FAILED for another layout, before anything is changed */
  async open(): Promise<void> {
    await this.#use(async (client) => {
      const { rows } = await client.query<{ known: string | null }>("SELECT to_regclass('brim_layout')::text AS known")
      if (rows[0]!.known === null) await client.query(tables)
      const found = await client.query<{ version: number }>('SELECT version FROM brim_layout')
      const version = found.rows[0]?.version
      if (version !== layout)
        throw new BrimError('STORE_FAILED', `the database has layout ${version}; this release supports layout ${layout}`, {
          hint: 'a newer release has written it: update this one',
        })
    })
  }

  /** Undefined: the database does not know the fleet. */
  async read(): Promise<FleetRecord | undefined> {
    interface Found {
      bridge: string
      versions: string
      lease: string
      node: string
      url: string
      pin: string | null
      auth: boolean
      valid: boolean
    }
    const { rows } = await this.#query<Found>(
      'SELECT bridge, versions, lease, node, url, pin, auth, expires_at > clock_timestamp() AS valid FROM brim_fleets WHERE fleet = $1',
      [this.#fleet],
    )
    const [found] = rows
    if (!found) return undefined
    const { bridge, versions, lease, node, url, pin, auth, valid } = found
    return {
      bridge,
      versions: JSON.parse(versions) as Record<string, number>,
      lease: Number(lease),
      primary: valid ? { node, url, pin, auth } : undefined,
    }
  }

  /** @returns false: it exists */
  async create(bridge: string, versions: FleetRecord['versions']): Promise<boolean> {
    const { rowCount } = await this.#query(
      'INSERT INTO brim_fleets (fleet, bridge, versions) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
      [this.#fleet, bridge, JSON.stringify(versions)],
    )
    return rowCount === 1
  }

  /** A node is there. */
  async announce({ node, url }: Pick<Primary, 'node' | 'url'>): Promise<void> {
    await this.#query(
      `INSERT INTO brim_nodes VALUES ($1, $2, $3, clock_timestamp())
       ON CONFLICT (fleet, node) DO UPDATE SET url = excluded.url, seen_at = excluded.seen_at`,
      [this.#fleet, node, url],
    )
  }

  /** Names of the nodes that have announced themselves in the last `withinMs`. */
  async nodes(withinMs: number): Promise<string[]> {
    const { rows } = await this.#query<{ node: string }>(
      `SELECT node FROM brim_nodes WHERE fleet = $1 AND seen_at > clock_timestamp() - $2 * interval '1 ms' ORDER BY node`,
      [this.#fleet, withinMs],
    )
    return rows.map(({ node }) => node)
  }

  /** @param after number of the latest lease: another node may have been faster. @returns undefined: it was, or that lease is valid */
  async takeLease({ node, url, pin, auth }: Primary, after: number, leaseMs: number): Promise<Lease | undefined> {
    const { rows } = await this.#query<{ lease: string; wall: number | null }>(
      `UPDATE brim_fleets SET lease = lease + 1, node = $3, url = $4, pin = $5, auth = $6,
         expires_at = clock_timestamp() + $7 * interval '1 ms'
       WHERE fleet = $1 AND lease = $2 AND expires_at <= clock_timestamp()
       RETURNING lease, wall_ms + 1000 * extract(epoch FROM clock_timestamp() - wall_at)::double precision AS wall`,
      [this.#fleet, after, node, url, pin, auth, leaseMs],
    )
    return rows[0] && { number: Number(rows[0].lease), wallMs: rows[0].wall ?? undefined }
  }

  /** @returns false: another node has taken the lease */
  async renew(lease: number, leaseMs: number, wallMs: number): Promise<boolean> {
    return this.#query(
      `UPDATE brim_fleets SET expires_at = clock_timestamp() + $3 * interval '1 ms', wall_ms = $4, wall_at = clock_timestamp()
       WHERE fleet = $1 AND lease = $2`,
      [this.#fleet, lease, leaseMs, wallMs],
    ).then(({ rowCount }) => rowCount === 1)
  }

  /** The lease ends now: another node may take it at once. */
  async release(lease: number): Promise<void> {
    await this.#query('UPDATE brim_fleets SET expires_at = clock_timestamp() WHERE fleet = $1 AND lease = $2', [
      this.#fleet,
      lease,
    ])
  }

  /**
   * Writes rows, all or none, if the lease is still held: no other node can take it meanwhile.
   * @returns false: another node has taken the lease
   */
  async ship(lease: number, rows: readonly FileRow[], versions: FleetRecord['versions']): Promise<boolean> {
    const { rowCount } = await this.#query(
      `WITH fence AS (
         UPDATE brim_fleets SET ship = ship + 1, versions = $3 WHERE fleet = $1 AND lease = $2 RETURNING ship
       ), written AS (
         INSERT INTO brim_rows (fleet, file, name, key, ship, content, deleted_at)
         SELECT $1, given.file, given.name, given.key, fence.ship, given.content,
           CASE WHEN given.content IS NULL THEN clock_timestamp() END
         FROM fence, unnest($4::text[], $5::text[], $6::text[], $7::text[]) AS given (file, name, key, content)
         ON CONFLICT (fleet, file, name, key)
         DO UPDATE SET ship = excluded.ship, content = excluded.content, deleted_at = excluded.deleted_at
       )
       SELECT ship FROM fence`,
      [
        this.#fleet,
        lease,
        JSON.stringify(versions),
        rows.map(({ file }) => file),
        rows.map(({ table }) => table),
        rows.map(({ key }) => key),
        rows.map(({ row }) => row),
      ],
    )
    return rowCount === 1
  }

  /** Rows written after a place, in the order in which they were written; fewer than a page: there are no more. */
  async rowsAfter({ ship, file, name, key }: Place): Promise<RowPage | undefined> {
    interface Found extends Place {
      content: string | null
    }
    const { rows } = await this.#query<Found>(
      `SELECT ship, file, name, key, content FROM brim_rows
       WHERE fleet = $1 AND (ship, file, name, key) > ($2::bigint, $3, $4, $5)
       ORDER BY ship, file, name, key LIMIT ${pageRows}`,
      [this.#fleet, ship, file, name, key],
    )
    const last = rows.at(-1)
    if (!last) return undefined
    const found = rows.map((row): FileRow => ({ file: row.file, table: row.name, key: row.key, row: row.content }))
    return { rows: found, after: { ship: last.ship, file: last.file, name: last.name, key: last.key } }
  }

  /** Deletes what remains of rows that were deleted this long ago. */
  async purge(olderMs: number): Promise<void> {
    await this.#query(`DELETE FROM brim_rows WHERE fleet = $1 AND deleted_at < clock_timestamp() - $2 * interval '1 ms'`, [
      this.#fleet,
      olderMs,
    ])
  }

  async close(): Promise<void> {
    const connecting = this.#connecting
    this.#connecting = undefined
    await connecting?.then((client) => client.end()).catch(() => {})
  }

  #query<Found extends pg.QueryResultRow>(text: string, values: unknown[]): Promise<pg.QueryResult<Found>> {
    return this.#use((client) => client.query<Found>(text, values))
  }

  async #use<T>(run: (client: pg.Client) => Promise<T>): Promise<T> {
    try {
      this.#connecting ??= this.#connect()
      return await run(await this.#connecting)
    } catch (cause) {
      if (cause instanceof BrimError) throw cause
      // What the server refuses leaves the connection as it is; after all else its state is unknown.
      if (!(cause instanceof pg.DatabaseError)) await this.close()
      throw new BrimError('DATABASE_UNAVAILABLE', `the database ${this.#url} does not store this fleet`, {
        cause,
        hint: 'does PostgreSQL run, with free disk space? may this user create tables there?',
        retryAfterMs: 1_000,
      })
    }
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: this.#url,
      connectionTimeoutMillis: queryTimeoutMs,
      query_timeout: queryTimeoutMs,
      keepAlive: true,
      application_name: 'brim',
    })
    client.on('error', () => {
      this.#connecting = undefined
    })
    await client.connect()
    return client
  }
}
