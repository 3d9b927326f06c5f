import { z } from 'zod'
import type { Logger } from '../../core/base/logger.ts'
import { tryOrLog } from '../../core/base/try-or-log.ts'
import { createLocalTtft, localTtftHalfLife, tokensLayout, ttftLayout } from '../../core/policy/disco/estimates.ts'
import { SilentStarts } from '../../core/policy/disco/silent-starts.ts'
import { ForgettingHistogram, type HistogramLayout } from '../../core/policy/estimate/forgetting-histogram.ts'
import { LinearFit } from '../../core/policy/estimate/linear-fit.ts'
import type { Store } from '../../core/store/open-database.ts'
import { storedJson } from '../../core/store/stored-json.ts'

/** A migration: what was learned from answers, as JSON. */
export const estimatesTable = 'CREATE TABLE dispatch_estimates (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;'

const HistogramJson = z.object({ weight: z.number(), quantiles: z.array(z.number()) })
const FitJson = z.array(z.number())

/** After so many answers what they have taught is stored. */
const answersPerSave = 8
/** Servers and models that are remembered. */
const maxStored = 64

/**
 * What the dispatch of answers depends on, learned from earlier ones and kept on disk, so that a restart does not start anew.
 * Histograms are stored in tens of numbers each.
 */
export class DispatchEstimates {
  readonly #read
  readonly #write
  readonly #forget
  readonly #store: Store
  readonly #logger: Logger
  readonly #known = new Map<string, ForgettingHistogram | LinearFit>()
  readonly #silence = new Map<string, SilentStarts>()
  #answers = 0

  /** @param store has `estimatesTable` */
  constructor(store: Store, logger: Logger) {
    this.#logger = logger
    this.#store = store
    this.#read = store.prepare<[string], { value: string }>('SELECT value FROM dispatch_estimates WHERE name = ?')
    this.#write = store.prepare('INSERT OR REPLACE INTO dispatch_estimates (name, value) VALUES (?, ?)')
    this.#forget = store.prepare(
      'DELETE FROM dispatch_estimates WHERE rowid NOT IN (SELECT rowid FROM dispatch_estimates ORDER BY rowid DESC LIMIT ?)',
    )
  }

  /** p(l): tokens of prompts. */
  get promptTokens(): ForgettingHistogram {
    return this.#histogram('prompt tokens', tokensLayout)
  }

  /** Tokens of answers that ended by themselves or at their limit. */
  get answerTokens(): ForgettingHistogram {
    return this.#histogram('answer tokens', tokensLayout)
  }

  /** F: time to the first token, in ms. @param server identifies it with its model */
  remoteTtft(server: string): ForgettingHistogram {
    return this.#histogram(`ttft of server ${server}`, ttftLayout)
  }

  /** Forgotten at a restart: three requests find it out again. @param server as above */
  remoteSilence(server: string): SilentStarts {
    const known = this.#silence.get(server) ?? new SilentStarts()
    this.#silence.set(server, known)
    return known
  }

  /** k·l + c: time to the first token of a small model, in ms by tokens of the prompt. */
  localTtft(modelId: string): LinearFit {
    const name = `ttft of model ${modelId}`
    const known = this.#known.get(name)
    if (known instanceof LinearFit) return known
    const stored = FitJson.safeParse(this.#stored(name))
    const fit = (stored.success && LinearFit.fromWire(localTtftHalfLife, stored.data)) || createLocalTtft()
    this.#known.set(name, fit)
    return fit
  }

  /** To be called after each answer. If the disk fails, the estimates are known until the agent ends. */
  answered(): void {
    this.#answers += 1
    if (this.#answers % answersPerSave === 0) this.save()
  }

  save(): void {
    tryOrLog(this.#logger, 'estimates of dispatch not stored', () => {
      const write = () => {
        for (const [name, estimate] of this.#known) this.#write.run(name, JSON.stringify(estimate.toWire() ?? null))
        this.#forget.run(maxStored)
      }
      // One write to the disk, not one for each.
      this.#store.transaction(write).immediate()
    })
  }

  #histogram(name: string, layout: HistogramLayout): ForgettingHistogram {
    const known = this.#known.get(name)
    if (known instanceof ForgettingHistogram) return known
    const stored = HistogramJson.safeParse(this.#stored(name))
    const histogram = (stored.success && ForgettingHistogram.fromWire(layout, stored.data)) || new ForgettingHistogram(layout)
    this.#known.set(name, histogram)
    return histogram
  }

  #stored(name: string): unknown {
    const row = this.#read.get(name)
    return row && storedJson(row.value)
  }
}
