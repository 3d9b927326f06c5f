import type pg from 'pg'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Row } from '../../core/kit/store/row-journal.ts'
import type { NodeLoad } from '../../core/policy/link/place-link.ts'
import { PostgresConnection } from './postgres-connection.ts'

/**
 * The layout. `brim_fleets`: of each fleet who is its primary bridge, until when (by the clock of this database), and how many times
 * rows have been written (`ship`). `brim_rows`: the rows of the primary's SQLite files; a deleted one stays without content until the
 * other bridges have seen it (`purged`: the latest ship of one that has not stayed).
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
  purged bigint NOT NULL DEFAULT 0,
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
CREATE INDEX IF NOT EXISTS brim_rows_deleted ON brim_rows (fleet, deleted_at) WHERE deleted_at IS NOT NULL;
`
/** Came later, with the releases whose standbys serve devices. */
const loads = `
ALTER TABLE brim_nodes ADD COLUMN IF NOT EXISTS links int, ADD COLUMN IF NOT EXISTS sessions int,
  ADD COLUMN IF NOT EXISTS drain boolean NOT NULL DEFAULT false
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

/** A node that is there, and what it serves. */
export interface AnnouncedNode extends Omit<NodeLoad, 'links'>, Pick<Primary, 'url'> {
  /** Null: it is of an earlier release, which serves no devices while it is a standby. */
  readonly links: number | null
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
  /** A copy that has not seen this ship may lack deletions. */
  readonly purged: number
}

/** The lease that a node holds. */
export interface Lease {
  readonly number: number
  /** By how much the clock of this machine is before that of the primary before, in ms; 0: there was none. */
  readonly gapMs: number
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

const pageRows = 500
/** Of rows that are written by one statement. */
const chunkBytes = 4 * 2 ** 20
/** A lease is renewed on a connection of its own: rows may take long. */
const leaseTimeoutMs = 3_000
const rowsTimeoutMs = 60_000
const leaseEnd = "clock_timestamp() + $3 * interval '1 ms'"

/** What the bridges of a fleet share, in PostgreSQL. Each call is one transaction. @throws BrimError DATABASE_UNAVAILABLE in every call */
export class FleetDatabase {
  readonly #fleet: string
  readonly #control: PostgresConnection
  readonly #rows: PostgresConnection
  /** Number of the latest ship of this node; undefined: it is not known whether that was written. */
  #ship: string | undefined
  #isAnnounced = false

  constructor(url: string, fleet: string) {
    this.#fleet = fleet
    this.#control = new PostgresConnection(url, leaseTimeoutMs)
    this.#rows = new PostgresConnection(url, rowsTimeoutMs)
  }

  /** Creates the layout where it is missing. @throws BrimError STORE_FAILED for another layout, before anything is changed */
  async open(): Promise<void> {
    const { rows } = await this.#control.query<{ known: string | null }>("SELECT to_regclass('brim_layout')::text AS known")
    // Several first starts at once would create the same tables.
    const change = (statements: string) =>
      this.#control.query(`BEGIN; SELECT pg_advisory_xact_lock(${0x6272_696d}); ${statements}; COMMIT`)
    if (rows[0]!.known === null) await change(tables)
    const found = await this.#control.query<{ version: number }>('SELECT version FROM brim_layout')
    const version = found.rows[0]?.version
    if (version !== layout)
      throw new BrimError('STORE_FAILED', `the database has layout ${version}; this release supports layout ${layout}`, {
        hint: 'a newer release has written it: update this one',
      })
    await change(loads)
  }

  /** Undefined: the database does not know the fleet. */
  async read(): Promise<FleetRecord | undefined> {
    interface Found extends Primary {
      bridge: string
      versions: string
      lease: string
      valid: boolean
      purged: string
    }
    const { rows } = await this.#control.query<Found>(
      `SELECT bridge, versions, lease, node, url, pin, auth, purged, expires_at > clock_timestamp() AS valid
       FROM brim_fleets WHERE fleet = $1`,
      [this.#fleet],
    )
    const [found] = rows
    if (!found) return undefined
    const { bridge, versions, lease, node, url, pin, auth, valid, purged } = found
    return {
      bridge,
      versions: JSON.parse(versions) as Record<string, number>,
      lease: Number(lease),
      primary: valid ? { node, url, pin, auth } : undefined,
      purged: Number(purged),
    }
  }

  /** Without effect where the fleet exists. */
  async create(bridge: string, versions: FleetRecord['versions']): Promise<void> {
    await this.#control.query('INSERT INTO brim_fleets (fleet, bridge, versions) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING', [
      this.#fleet,
      bridge,
      JSON.stringify(versions),
    ])
  }

  /** A node is there. @returns whether it drains; not by what an operator has asked of the process before it */
  async announce({ node, url, links, sessions, isDraining }: AnnouncedNode): Promise<boolean> {
    const isFirst = !this.#isAnnounced
    const { rows } = await this.#control.query<{ drain: boolean }>(
      `INSERT INTO brim_nodes (fleet, node, url, seen_at, links, sessions, drain) VALUES ($1, $2, $3, clock_timestamp(), $4, $5, $7)
       ON CONFLICT (fleet, node) DO UPDATE SET url = excluded.url, seen_at = excluded.seen_at, links = excluded.links,
         sessions = excluded.sessions, drain = excluded.drain OR (brim_nodes.drain AND NOT $6)
       RETURNING drain`,
      [this.#fleet, node, url, links, sessions, isFirst, isDraining],
    )
    this.#isAnnounced = true
    return rows[0]!.drain
  }

  /** Those that have announced themselves in the last `withinMs`. */
  async nodes(withinMs: number): Promise<AnnouncedNode[]> {
    const { rows } = await this.#control.query<AnnouncedNode>(
      `SELECT node, url, links, coalesce(sessions, 0) AS sessions, drain AS "isDraining" FROM brim_nodes
       WHERE fleet = $1 AND seen_at > clock_timestamp() - $2 * interval '1 ms' ORDER BY node`,
      [this.#fleet, withinMs],
    )
    return rows
  }

  /** A node is to send its devices away and to take no lease, or no longer. It learns that when it next announces itself. */
  async setDraining(node: string, isDraining: boolean): Promise<void> {
    await this.#control.query('UPDATE brim_nodes SET drain = $3 WHERE fleet = $1 AND node = $2', [this.#fleet, node, isDraining])
  }

  /**
   * @param after number of the latest lease: another node may have been faster
   * @param isForced also where that lease is valid: its node stores nothing from now on
   * @returns undefined: another node was faster, or that lease is valid
   */
  async takeLease(
    { node, url, pin, auth }: Primary,
    after: number,
    leaseMs: number,
    isForced = false,
  ): Promise<Lease | undefined> {
    const { rows } = await this.#control.query<{ lease: string; wall: number | null }>(
      `UPDATE brim_fleets SET lease = lease + 1, node = $4, url = $5, pin = $6, auth = $7, expires_at = ${leaseEnd}
       WHERE fleet = $1 AND lease = $2 AND (expires_at <= clock_timestamp() OR $8)
       RETURNING lease, wall_ms + 1000 * extract(epoch FROM clock_timestamp() - wall_at)::double precision AS wall`,
      [this.#fleet, after, leaseMs, node, url, pin, auth, isForced],
    )
    this.#ship = undefined
    return rows[0] && { number: Number(rows[0].lease), gapMs: rows[0].wall === null ? 0 : Date.now() - rows[0].wall }
  }

  /**
   * @param wallMs what the clock of the jobs' deadlines shows, UTC ms; undefined: it is not open yet
   * @returns false: another node has taken the lease
   */
  async renew(lease: number, leaseMs: number, { pin }: Pick<Primary, 'pin'>, wallMs: number | undefined): Promise<boolean> {
    const { rowCount } = await this.#control.query(
      `UPDATE brim_fleets SET expires_at = ${leaseEnd}, pin = $4, wall_ms = coalesce($5, wall_ms),
         wall_at = CASE WHEN $5::double precision IS NULL THEN wall_at ELSE clock_timestamp() END
       WHERE fleet = $1 AND lease = $2`,
      [this.#fleet, lease, leaseMs, pin, wallMs ?? null],
    )
    return rowCount === 1
  }

  /** The lease ends now: another node may take it at once. */
  async release(lease: number): Promise<void> {
    await this.#control.query('UPDATE brim_fleets SET expires_at = clock_timestamp() WHERE fleet = $1 AND lease = $2', [
      this.#fleet,
      lease,
    ])
  }

  /**
   * Writes rows, all or none, if the lease is still held and nothing else was written since: no other node can take it meanwhile.
   * @returns false: another node has taken the lease, or the database is an earlier state of itself
   */
  async ship(lease: number, rows: readonly FileRow[], versions: FleetRecord['versions']): Promise<boolean> {
    return this.#transaction(lease, async (write) => {
      for (const chunk of chunksOf(rows)) if (!(await write(chunk, versions))) return false
      return rows.length > 0 || write([], versions)
    })
  }

  /**
   * Writes all rows of the fleet, in place of those that are there.
   * @param leaseMs for which the lease is held afterwards
   * @returns false: as of `ship`
   */
  async shipAll(lease: number, pages: Iterable<readonly FileRow[]>, versions: FleetRecord['versions'], leaseMs: number) {
    return this.#transaction(lease, async (write, client) => {
      for (const page of pages) for (const chunk of chunksOf(page)) if (!(await write(chunk, versions))) return false
      if (!(await write([], versions))) return false
      await client.query(
        `UPDATE brim_rows SET content = NULL, deleted_at = clock_timestamp(), ship = current.ship
         FROM brim_fleets AS current
         WHERE current.fleet = $1 AND brim_rows.fleet = $1 AND brim_rows.ship < current.ship AND content IS NOT NULL`,
        [this.#fleet],
      )
      await client.query(`UPDATE brim_fleets SET expires_at = ${leaseEnd} WHERE fleet = $1 AND lease = $2`, [
        this.#fleet,
        lease,
        leaseMs,
      ])
      return true
    })
  }

  /** Rows written after a place, in the order in which they were written; undefined: there are no more. */
  async rowsAfter({ ship, file, name, key }: Place): Promise<RowPage | undefined> {
    const { rows } = await this.#rows.query<Place & { content: string | null }>(
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
    await this.#rows.query(
      `WITH gone AS (
         DELETE FROM brim_rows WHERE fleet = $1 AND deleted_at < clock_timestamp() - $2 * interval '1 ms' RETURNING ship
       )
       UPDATE brim_fleets SET purged = greatest(purged, (SELECT max(ship) FROM gone)) WHERE fleet = $1 AND EXISTS (SELECT FROM gone)`,
      [this.#fleet, olderMs],
    )
  }

  async close(): Promise<void> {
    await Promise.all([this.#control.close(), this.#rows.close()])
  }

  /** All that `run` writes has one number. */
  async #transaction(
    lease: number,
    run: (
      write: (rows: readonly FileRow[], versions: FleetRecord['versions']) => Promise<boolean>,
      client: pg.Client,
    ) => Promise<boolean>,
  ): Promise<boolean> {
    return this.#rows.use(async (client) => {
      const before = this.#ship ?? (await this.#latestShip(client))
      this.#ship = undefined
      let number = before
      const write = async (rows: readonly FileRow[], versions: FleetRecord['versions']) => {
        const written = await this.#write(client, { lease, number, isFirst: number === before }, rows, versions)
        if (written !== undefined) number = written
        return written !== undefined
      }
      await client.query('BEGIN')
      const isDone = await run(write, client)
      await client.query(isDone ? 'COMMIT' : 'ROLLBACK')
      if (isDone) this.#ship = number
      return isDone
    })
  }

  /** @returns number of the ship; undefined: the lease, or the number, is another one */
  async #write(
    client: pg.Client,
    { lease, number, isFirst }: { lease: number; number: string; isFirst: boolean },
    rows: readonly FileRow[],
    versions: FleetRecord['versions'],
  ): Promise<string | undefined> {
    const { rows: found } = await client.query<{ ship: string }>(
      `WITH fence AS (
         UPDATE brim_fleets SET ship = ship + $3::int, versions = $4 WHERE fleet = $1 AND lease = $2 AND ship = $5::bigint RETURNING ship
       ), written AS (
         INSERT INTO brim_rows (fleet, file, name, key, ship, content, deleted_at)
         SELECT $1, given.file, given.name, given.key, fence.ship, given.content,
           CASE WHEN given.content IS NULL THEN clock_timestamp() END
         FROM fence, unnest($6::text[], $7::text[], $8::text[], $9::text[]) AS given (file, name, key, content)
         ON CONFLICT (fleet, file, name, key)
         DO UPDATE SET ship = excluded.ship, content = excluded.content, deleted_at = excluded.deleted_at
       )
       SELECT ship FROM fence`,
      [
        ...[this.#fleet, lease, Number(isFirst), JSON.stringify(versions), number],
        ...[rows.map(({ file }) => file), rows.map(({ table }) => table), rows.map(({ key }) => key), rows.map(({ row }) => row)],
      ],
    )
    return found[0]?.ship
  }

  async #latestShip(client: pg.Client): Promise<string> {
    const { rows } = await client.query<{ ship: string }>('SELECT ship FROM brim_fleets WHERE fleet = $1', [this.#fleet])
    return rows[0]!.ship
  }
}

function* chunksOf(rows: readonly FileRow[]): Generator<FileRow[]> {
  let chunk: FileRow[] = []
  let bytes = 0
  for (const row of rows) {
    chunk.push(row)
    bytes += row.key.length + (row.row?.length ?? 0)
    if (bytes < chunkBytes) continue
    yield chunk
    chunk = []
    bytes = 0
  }
  if (chunk.length > 0) yield chunk
}
