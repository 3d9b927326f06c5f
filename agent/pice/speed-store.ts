import type { Logger } from '../../core/kit/base/logger.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import type { MeasuredSpeed } from '../slm/measure.ts'

/** What was measured of one small model on this device. */
export interface StoredSpeed extends MeasuredSpeed {
  readonly loadMs: number
  /** Absent: not known. */
  readonly contextTokens?: number
  readonly tokensPerLlmToken: number
  /** Of real over measured times, as expansions have corrected it. */
  readonly factor: number
}

/** A migration: what was measured, as JSON, by model and settings. */
export const speedTable = 'CREATE TABLE small_model_speed (key TEXT PRIMARY KEY, speed TEXT NOT NULL) STRICT;'

/** The measured speeds of small models, on disk. */
export class SpeedStore {
  readonly #read
  readonly #write
  readonly #forget
  readonly #known = new Map<string, StoredSpeed>()
  readonly #logger: Logger

  /** @param store has `speedTable` */
  constructor(store: Store, logger: Logger) {
    this.#logger = logger
    this.#read = store.prepare<[string], { speed: string }>('SELECT speed FROM small_model_speed WHERE key = ?')
    this.#write = store.prepare('INSERT OR REPLACE INTO small_model_speed (key, speed) VALUES (?, ?)')
    this.#forget = store.prepare(
      'DELETE FROM small_model_speed WHERE rowid NOT IN (SELECT rowid FROM small_model_speed ORDER BY rowid DESC LIMIT ?)',
    )
  }

  /** @param key names the version of the model, and the settings that decide its speed */
  of(key: string): StoredSpeed | undefined {
    const known = this.#known.get(key)
    if (known) return known
    const row = this.#read.get(key)
    const speed = row && (storedJson(row.speed) as StoredSpeed | undefined)
    if (speed) this.#known.set(key, speed)
    return speed
  }

  /** If the disk fails, the speed is known until the agent ends: an expansion must not fail for it. */
  save(key: string, speed: StoredSpeed): void {
    this.#known.set(key, speed)
    tryOrLog(this.#logger, 'speed of a small model not stored', () => {
      this.#write.run(key, JSON.stringify(speed))
      this.#forget.run(maxStored)
    })
  }
}

/** Models and settings that are remembered. */
const maxStored = 64
