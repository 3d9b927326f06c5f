import { z } from 'zod'
import type { Logger } from '../../core/kit/base/logger.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import type { Foresight } from '../../core/policy/pice/answer-planner.ts'
import { LengthRatio } from '../../core/policy/pice/length-ratio.ts'

const Ratios = z.array(z.number())

/** What was learnt of the foresight of models, remembered over restarts. */
export class LengthMemory {
  readonly #write
  readonly #read
  readonly #logger: Logger

  /** @param store of `openPiceStore` */
  constructor(store: Store, logger: Logger) {
    this.#logger = logger
    this.#read = store.prepare<[string], string>('SELECT ratios FROM foresight WHERE model = ?').pluck()
    this.#write = store.prepare<[string, string]>('INSERT OR REPLACE INTO foresight VALUES (?, ?)')
  }

  of(model: string): Foresight {
    const stored = this.#read.get(model)
    const lengths = new LengthRatio(stored === undefined ? [] : (Ratios.safeParse(storedJson(stored)).data ?? []))
    return {
      correct: (tokens) => lengths.correct(tokens),
      record: (foreseenTokens, trueTokens) => {
        lengths.record(foreseenTokens, trueTokens)
        tryOrLog(this.#logger, 'length of an answer not stored', () => this.#write.run(model, JSON.stringify(lengths.samples)))
      },
    }
  }
}
