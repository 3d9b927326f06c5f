import pg from 'pg'
import { BrimError } from '../../core/kit/base/errors.ts'

/** A connection to PostgreSQL that is opened when it is needed, and again after a failure. */
export class PostgresConnection {
  readonly #url: string
  readonly #timeoutMs: number
  #client: Promise<pg.Client> | undefined

  /** @param timeoutMs time without an answer after which it is given up */
  constructor(url: string, timeoutMs: number) {
    this.#url = url
    this.#timeoutMs = timeoutMs
  }

  query<Found extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<pg.QueryResult<Found>> {
    return this.use((client) => client.query<Found>(text, values))
  }

  /** @throws BrimError DATABASE_UNAVAILABLE; our own errors of `run` */
  async use<T>(run: (client: pg.Client) => Promise<T>): Promise<T> {
    const connecting = this.#client ?? this.#connect()
    this.#client = connecting
    try {
      return await run(await connecting)
    } catch (cause) {
      // After a failure the state of a connection is not known: it may hold a transaction, or an answer that comes late.
      this.#drop(connecting)
      if (cause instanceof BrimError) throw cause
      throw new BrimError('DATABASE_UNAVAILABLE', `the database ${this.#url} does not serve this fleet`, {
        cause,
        hint: 'does PostgreSQL run, with free disk space? may this user create tables there?',
        retryAfterMs: 1_000,
      })
    }
  }

  async close(): Promise<void> {
    const connecting = this.#client
    this.#client = undefined
    await connecting?.then((client) => client.end()).catch(() => {})
  }

  #drop(connecting: Promise<pg.Client>): void {
    if (this.#client === connecting) this.#client = undefined
    connecting.then((client) => client.end()).catch(() => {})
  }

  #connect(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: this.#url,
      connectionTimeoutMillis: this.#timeoutMs,
      query_timeout: this.#timeoutMs,
      keepAlive: true,
      application_name: 'brim',
      // What is acknowledged is on the server's disk, whatever its default.
      options: '-c synchronous_commit=on',
    })
    const connecting = client.connect().then(() => client)
    client.on('error', () => this.#drop(connecting))
    return connecting
  }
}
