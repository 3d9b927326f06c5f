import { z } from 'zod'
import type { Logger } from '../../core/kit/base/logger.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import { DispatchEstimates } from '../../core/policy/disco/dispatch-estimates.ts'

/** A migration: what was learned from answers, as JSON. */
export const estimatesTable = 'CREATE TABLE dispatch_estimates (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;'

const EstimateJson = z.union([z.object({ weight: z.number(), quantiles: z.array(z.number()) }), z.array(z.number())])

/** After so many answers what they have taught is stored. */
const answersPerSave = 8
/** Servers and models that are remembered. */
const maxStored = 64

/** What answers have taught, kept on disk, so that a restart does not start anew. */
export class StoredEstimates extends DispatchEstimates {
  readonly #write
  readonly #forget
  readonly #store: Store
  readonly #logger: Logger
  #answers = 0

  /** @param store has `estimatesTable` */
  constructor(store: Store, logger: Logger) {
    const read = store.prepare<[string], { value: string }>('SELECT value FROM dispatch_estimates WHERE name = ?')
    super((name) => {
      const row = read.get(name)
      return row && EstimateJson.safeParse(storedJson(row.value)).data
    })
    this.#logger = logger
    this.#store = store
    this.#write = store.prepare('INSERT OR REPLACE INTO dispatch_estimates (name, value) VALUES (?, ?)')
    this.#forget = store.prepare(
      'DELETE FROM dispatch_estimates WHERE rowid NOT IN (SELECT rowid FROM dispatch_estimates ORDER BY rowid DESC LIMIT ?)',
    )
  }

  /** All that is on disk, by name. */
  stored(): Record<string, z.infer<typeof EstimateJson>> {
    const rows = this.#store.prepare<[], { name: string; value: string }>('SELECT name, value FROM dispatch_estimates').all()
    return Object.fromEntries(
      rows.flatMap(({ name, value }) => {
        const { data } = EstimateJson.safeParse(storedJson(value))
        return data ? [[name, data]] : []
      }),
    )
  }

  /** If the disk fails, the estimates are known until the agent ends. */
  override answered(): void {
    this.#answers += 1
    if (this.#answers % answersPerSave === 0) this.save()
  }

  save(): void {
    tryOrLog(this.#logger, 'estimates of dispatch not stored', () => {
      const write = () => {
        for (const [name, wire] of this.wires()) this.#write.run(name, JSON.stringify(wire ?? null))
        this.#forget.run(maxStored)
      }
      // One write to the disk, not one for each.
      this.#store.transaction(write).immediate()
    })
  }
}
