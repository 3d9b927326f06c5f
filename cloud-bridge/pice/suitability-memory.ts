import { readFileSync } from 'node:fs'
import { z } from 'zod'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { writePrivate } from '../../core/kit/base/private-file.ts'
import type { Random } from '../../core/kit/base/random.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { bucketCount, surfaceFeatures } from '../../core/policy/pice/request-features.ts'
import { type LearningSettings, noWeights, Suitability, type SuitabilityWeights } from '../../core/policy/pice/suitability.ts'
import { CountWindow } from '../../core/policy/quota/count-window.ts'

/** A change of the features would give stored weights another meaning. */
const version = 1

const Stored = z.object({
  version: z.literal(version),
  surface: z.record(z.string(), z.number().min(-100).max(100)),
  /** Base64 of little-endian float32, one per bucket. */
  buckets: z.base64().max(8 * bucketCount),
})

const saveEveryMs = 60_000

/** Of one client, that count for all: one that asks much, or whose sampling spoils expansions, decides nothing for the others. */
const lessonsForAll = { max: 3, windowMs: 60 * 60_000, maxKeys: 1_000 }
/** Whose own lessons are known; the others begin anew. */
const maxClients = 32
/** How far its own lessons may move a client's log odds: requests that clearly suit stay suitable. */
const maxOwnOdds = 0.75

interface SuitabilityMemoryOptions {
  /** Created with the first lesson. */
  readonly file: string
  readonly random: Random
  readonly clock: Clock
  readonly logger: Logger
  readonly settings?: Partial<LearningSettings>
}

type Messages = readonly { readonly role: string; readonly content?: unknown }[]

/**
 * Which conversations suit a sketch at this bridge, as the confidence of its answers has shown: to all clients, remembered over restarts,
 * and to each client within a bound. The file has weights of hashed words, no text.
 */
export class SuitabilityMemory {
  readonly #options: SuitabilityMemoryOptions
  readonly #suitability: Suitability
  /** The latest last. */
  readonly #own = new Map<string, Suitability>()
  readonly #forAll = new CountWindow(lessonsForAll)
  #savedMs: number
  #hasNews = false

  constructor(options: SuitabilityMemoryOptions) {
    this.#options = options
    this.#suitability = new Suitability(this.#load(), options.settings)
    this.#savedMs = options.clock.nowMs()
  }

  suits(messages: Messages, client: string): boolean {
    const request = requestOf(messages)
    const own = this.#own.get(client)?.learntOdds(request) ?? 0
    const bounded = Math.min(maxOwnOdds, Math.max(-maxOwnOdds, own))
    return this.#suitability.judge(request, this.#options.random.next(), bounded).suits
  }

  /** @param confidence of the expanded answer (Eq. 3), 0..1 */
  learn(messages: Messages, client: string, confidence: number): void {
    const request = requestOf(messages)
    const own = this.#own.get(client) ?? new Suitability(undefined, this.#options.settings)
    own.learn(request, confidence)
    this.#own.delete(client)
    this.#own.set(client, own)
    if (this.#own.size > maxClients) this.#own.delete(this.#own.keys().next().value!)
    if (!this.#forAll.take(client, this.#options.clock.nowMs())) return
    this.#suitability.learn(request, confidence)
    this.#hasNews = true
    if (this.#options.clock.nowMs() - this.#savedMs >= saveEveryMs) this.save()
  }

  /** Writes what was learnt since the last time. An error is logged: the next save may succeed. */
  save(): void {
    const { file, clock, logger } = this.#options
    this.#savedMs = clock.nowMs()
    if (!this.#hasNews) return
    this.#hasNews = false
    const { surface, buckets } = this.#suitability.learnt
    const stored: z.infer<typeof Stored> = {
      version,
      surface: Object.fromEntries(surfaceFeatures.map((name, at) => [name, surface[at]!])),
      buckets: floats(buckets).toString('base64'),
    }
    tryOrLog(logger, 'cannot store which requests suit a sketch', () => writePrivate(file, JSON.stringify(stored)), { file })
  }

  #load(): SuitabilityWeights {
    const { file, logger } = this.#options
    try {
      return weightsOf(Stored.parse(JSON.parse(readFileSync(file, 'utf8'))))
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== 'ENOENT')
        logger.warn({ err, file }, 'cannot read which requests suit a sketch: learning it from the beginning')
      return noWeights()
    }
  }
}

/** The last user message: what is asked now. */
function requestOf(messages: Messages): string {
  const content = messages.findLast(({ role }) => role === 'user')?.content
  return typeof content === 'string' ? content : ''
}

/** @throws Error for another number of buckets or no finite weights */
function weightsOf({ surface, buckets }: z.infer<typeof Stored>): SuitabilityWeights {
  const bytes = Buffer.from(buckets, 'base64')
  if (bytes.length !== 4 * bucketCount) throw new Error(`${bytes.length} bytes are not ${bucketCount} weights`)
  const weights = Float32Array.from({ length: bucketCount }, (_, at) => bytes.readFloatLE(4 * at))
  if (!weights.every((weight) => Math.abs(weight) <= 100)) throw new Error('a weight is no number of a usual size')
  return { bias: 0, surface: Float32Array.from(surfaceFeatures, (name) => surface[name] ?? 0), buckets: weights }
}

function floats(weights: Float32Array): Buffer {
  const bytes = Buffer.alloc(4 * weights.length)
  for (const [at, weight] of weights.entries()) bytes.writeFloatLE(weight, 4 * at)
  return bytes
}
